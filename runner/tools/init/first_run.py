"""The first run of a script, from which `runner init` learns how to read the script's output."""

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from runner.cli.printing import say
from runner.cli.progress import Progress
from runner.cli.terminal import Screen
from runner.core import clock
from runner.core.errors import RequestError
from runner.core.text import listed, one_line
from runner.definitions.choices import Selection
from runner.definitions.plan import Run, make_plan
from runner.execution import signals
from runner.execution.run import execute
from runner.records.schema import Record
from runner.targets.local import Local
from runner.tools.init.proposal import INIT, LIMIT_SECONDS, Proposal
from runner.tools.init.source import Sign
from runner.tools.init.trial import Reading, Trial, recognise
from runner.tools.init.way_out import describe

_MOST_FILES = 50_000
_TORCH = "pip install 'distributed-experiment-kit[torch]'"


class _Screen(Screen):
    """Shows the live line of one run on a terminal. At the run's end, `trial` gets the run's record and folder."""

    trial: Trial

    def begin(self, number: int, total: int, run: Run, _folder: Path) -> None:
        self._progress = Progress(number, total, run, [])
        self._said = clock.monotonic()

    def stopping(self, _why: str) -> None:
        """Print nothing, since the time limit was announced before the run."""

    def end(self, _run: Run, record: Record, folder: Path) -> None:
        self._progress = None
        self.trial = Trial(record, folder)


def unread(proposal: Proposal) -> Reading:
    """Return how to read the output of a script that was not started, judging by its source."""
    if Sign.EVENTS in proposal.modules.signs:
        return Reading((), "train_seconds", ("event lines",))
    return Reading()


def read_first_run(
    proposal: Proposal, device: str, seconds: float, command: str = INIT, variables: Sequence[str] = ()
) -> Reading:
    """Run the script once, for `seconds` at most, and return how to read its output.

    `command` is the command that the user typed. It is used in messages. `variables` are the words of `--env`.
    """
    if importlib.util.find_spec("torch") is None:
        raise RequestError(f"torch is not installed in {one_line(sys.executable)}: {_TORCH}")
    folder, is_kept = Path(tempfile.mkdtemp(prefix="runner-init-")), False
    try:
        experiment = proposal.experiment(unread(proposal), folder)
        short = structs.replace(experiment, dialects={}, timeout_seconds=seconds, skip=[], baseline={})
        plan = make_plan(short, Selection(device=device, layouts=("1x1",), repeat=1, variables=variables))
        say(f"first run: {plan.cells[0].command()}  (one process on {device}, for {seconds:g} s at most)")
        screen, before = _Screen(), _files(proposal.root)
        with signals.taken() as interrupts, screen:
            execute(plan, Local(), folder / "results", screen, interrupts)
        trial = screen.trial
        if trial.record.failure is not None and not trial.ended_early:
            why, is_kept = describe(trial, proposal.root, proposal.modules.script, command)
            raise RequestError(why)
        took = trial.record.metrics.get("wall_seconds", seconds)
        how = f"ended after {took:.1f} s"
        if trial.ended_early:
            limit = f"a real run gets {LIMIT_SECONDS} s, or the definition's timeout_seconds"
            how = f"stopped after {took:.0f} s, unfinished; {limit}"
        say(f"first run: {how}")
        if left := sorted(_files(proposal.root) - before):
            say(f"note: the first run left {listed(left, most=3)}: remove what the script would resume from")
        return recognise(trial)
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def _files(root: Path) -> set[str]:
    files: set[str] = set()
    for folder, folders, names in os.walk(root):
        own = () if "pyvenv.cfg" in names or len(files) > _MOST_FILES else folders
        folders[:] = [name for name in own if name[0] != "." and name not in ("__pycache__", "results")]
        files.update(os.path.relpath(os.path.join(folder, name), root) for name in names)  # noqa: PTH118
    return files if len(files) <= _MOST_FILES else set()


def say_output(reading: Reading, *, tried: bool, metrics: Sequence[str] = ()) -> None:
    """Print how the output is read, and why samples are not counted."""
    more = f"--metric reads {', '.join(metrics)}" if metrics else "to read more: --metric loss='loss: ({number})'"
    if reading.dialects == ("none",):
        say(f"output: no loss or accuracy recognised; {more}" if tried else "output: not examined")
    elif reading.dialects:
        say(f"output: dialect {reading.dialects[0]} reads {', '.join(reading.fields)}; {more}")
    else:
        say("output: the kit's event lines")
    if reading.unobserved:
        say(f"note: samples are not counted, so runs are timed from launch to end: {reading.unobserved}")
