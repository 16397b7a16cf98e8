"""The first run of a script, by which its output is read, and what a person is told of it."""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runner.cli.printing import say
from runner.core.errors import RequestError
from runner.core.text import listed
from runner.execution import signals
from runner.execution.run import execute
from runner.records.provenance import describe_repository
from runner.tools.init import failure, reading, trial
from runner.tools.init.definition_text import LIMIT_SECONDS
from runner.tools.init.failure import INIT
from runner.tools.init.proposal import Proposal
from runner.tools.init.reading import Reading, recognise

MOST_FILES = 50_000
MORE = "to name more: --metric loss='loss: ({number})'"


def say_script(proposal: Proposal) -> None:
    """Print which project and which script this is about."""
    source = proposal.settings.source
    say(f"project: {proposal.root}" + (f" ({source.name})" if source else ""))
    say(f"script: {proposal.modules.script}: {proposal.modules.why}")


def unread(proposal: Proposal) -> Reading:
    """Return how the output is read if it was never seen."""
    return Reading((), "train_seconds", ("event lines",)) if proposal.traits.events else reading.unread()


def read_first_run(proposal: Proposal, device: str, seconds: float, command: str = INIT) -> Reading:
    """Start the script once, for so many seconds at most, and find how its output is read.

    The command is the one that a person gave.
    """
    if importlib.util.find_spec("torch") is None:
        raise RequestError(failure.torch_is_missing())
    folder, is_kept = Path(tempfile.mkdtemp(prefix="runner-init-")), False
    try:
        experiment = proposal.experiment(unread(proposal), folder)
        plan = trial.plan_trial(experiment, device, seconds)
        say(f"starts: {plan.cells[0].command()}  (once, with one process on {device}, for {seconds:g} s at most)")
        screen, before = trial.TrialScreen(), _files(proposal.root)
        with signals.taken() as interrupts, screen:
            execute(plan, trial.Tried(), folder / "results", screen, interrupts)
        (tried,) = screen.trials
        script = proposal.modules.script
        if tried.failed:
            said, is_kept = failure.describe(tried, proposal.root, script, command)
            raise RequestError(said)
        limit = f"a run of its own is ended after {LIMIT_SECONDS} s, unless a definition gives it more"
        took = tried.record.metrics.get("wall_seconds", seconds)
        how = f"after {took:.1f} s, by itself"
        if tried.ended_early:
            how = f"by the runner after {took:.0f} s, before it was done: {limit}"
        say(f"ended: {how}")
        if left := sorted(_files(proposal.root) - before):
            say(f"note: it left {listed(left, most=3)}: if the script goes on from there, remove it before a run")
        return recognise(tried)
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def _files(root: Path) -> set[str]:
    """List the files of a project, without those that are hidden; none if there are too many to look at."""
    found: set[str] = set()
    for folder, folders, names in os.walk(root):
        own = () if "pyvenv.cfg" in names or len(found) > MOST_FILES else folders
        folders[:] = [name for name in own if name[0] != "." and name not in ("__pycache__", "results")]
        found.update(os.path.relpath(os.path.join(folder, name), root) for name in names)  # noqa: PTH118
    return found if len(found) <= MOST_FILES else set()


def say_output(reading: Reading, *, tried: bool, metrics: Sequence[str] = ()) -> None:
    """Print how the output is read, and what else a person should know."""
    more = f"--metric reads {', '.join(metrics)}" if metrics else MORE
    if reading.dialects == ("none",) and not tried:
        say("output: not looked at; docs/dialects.md lists dialects")
    elif reading.dialects == ("none",):
        what = "it printed nothing" if reading.is_silent else "no loss and no accuracy is read"
        say(f"output: {what}; {more}")
    elif reading.dialects:
        say(f"output: read by {' and '.join(reading.dialects)}: {', '.join(reading.fields)}; {more}")
    else:
        say("output: event lines of the kit")
    if reading.unobserved:
        say(f"note: samples are not counted, so a run is timed from its launch to its end: {reading.unobserved}")
    if reading.note:
        say(f"note: {reading.note}")


def say_state(root: Path) -> None:
    """Print what a record will say of the repository's state."""
    code, _ = describe_repository(root)
    if code.get("git"):
        say(f"note: {code['git']}")
    if code.get("diff_sha256"):
        say("note: there are changes that are not committed: each run keeps their diff")
