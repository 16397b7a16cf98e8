"""The first short run: the script is started once, as `runner run` starts it, and its output is kept beside."""

from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from runner.cli.progress import Progress
from runner.cli.terminal import Screen
from runner.core import clock
from runner.definitions.choices import Selection
from runner.definitions.definition import Experiment
from runner.definitions.plan import Plan, Run, make_plan
from runner.records.folder import RunFolder
from runner.records.schema import Record
from runner.targets.base import LaunchSpec
from runner.targets.local import Local, LocalHandle

LAYOUT = "1x1"
_WHOLE_ERRORS = "HYDRA_FULL_ERROR"
"""With it Hydra raises its exceptions; else it prints their text in a form of its own, whose last line is advice."""


@dataclass(frozen=True)
class Trial:
    """How the first run ended; `folder` is that of the run, with what was printed."""

    record: Record
    folder: Path

    @property
    def failed(self) -> bool:
        """Return whether the script failed by itself; one that was ended by us did not."""
        return self.record.failure is not None and not self.ended_early

    @property
    def ended_early(self) -> bool:
        """Return whether it was ended, because its time was up."""
        outcome = self.record.outcome
        return outcome is None or bool(outcome.stopped_because) or any(node.stopped for node in outcome.exits)


def plan_trial(experiment: Experiment, device: str, seconds: float) -> Plan:
    """Plan one run with one process."""
    short = structs.replace(experiment, dialects={}, timeout_seconds=seconds, skip=[], baseline={})
    return make_plan(short, Selection(device=device, layouts=(LAYOUT,), repeat=1))


class Tried(Local):
    """The target `local`, for a run whose errors are shown whole."""

    def start(self, spec: LaunchSpec, folder: RunFolder) -> LocalHandle:
        """Start the run."""
        nodes = [replace(node, env={_WHOLE_ERRORS: "1", **node.env}) for node in spec.nodes]
        return super().start(replace(spec, nodes=nodes), folder)


class TrialScreen(Screen):
    """Shows the live line of one run on a terminal, and keeps how it ended for the caller to say."""

    def __init__(self) -> None:
        super().__init__()
        self.trials: list[Trial] = []

    def begin(self, number: int, total: int, run: Run, _folder: Path) -> None:
        """Begin to show the run."""
        self._progress = Progress(number, total, run, [])
        self._said = clock.monotonic()

    def stopping(self, _why: str) -> None:
        """Print nothing: that the time is up is what was announced."""

    def end(self, _run: Run, record: Record, folder: Path) -> None:
        """Stop to show the run, and keep its record."""
        self._progress = None
        self.trials.append(Trial(record, folder))
