"""`runner init`."""

import importlib.util
from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.lines import say, show, show_document
from runner.cli.options import Change, Device, device_of, here
from runner.core.errors import RequestError
from runner.execution import signals
from runner.records.repository import describe_repository
from runner.tools.init import arguments, failure, trial
from runner.tools.init.changes import write
from runner.tools.init.containers import Additions, defined, of_project, of_proposal
from runner.tools.init.proposal import Proposal, propose
from runner.tools.init.reading import Reading, recognise, unread


def init(
    script: Annotated[
        Optional[str], typer.Argument(metavar="[SCRIPT]", help="The training script; without it, it is looked for.")
    ] = None,
    name: Annotated[Optional[str], typer.Option(help="The name of the experiment.")] = None,
    change: Change = None,
    device: Device = "auto",
    try_seconds: Annotated[float, typer.Option(min=1, max=3600, help="When the first run is ended.")] = 60,
    no_try: Annotated[
        bool, typer.Option("--no-try", help="Start nothing; nothing of the output is read then.")
    ] = False,
    containers: Annotated[
        bool, typer.Option("--containers", help="Also write what runs in containers and pods need.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would change; write and start nothing.")
    ] = False,
) -> None:
    """Make your repository a project with a first definition.

    The script is not edited. It is started once, so that its output can be read. Nothing that is there is overwritten.

    With --containers: an image with the project's requirements, compose/ and k8s/; also for a definition that is there.
    """
    if containers and script is None and (experiment := defined(here(), name)):
        _finish(of_project(experiment), experiment.root, _next(experiment.name, on=" --on compose"), dry_run=dry_run)
        return

    proposal = propose(here(), script, name, change or [])
    _introduce(proposal)
    if dry_run:
        _show_diff(proposal, containers=containers)
        return
    reading = _unread(proposal) if no_try else _try(proposal, device_of(device), try_seconds)
    added = _checked(proposal, reading, containers=containers)
    _say_output(proposal, reading, tried=not no_try)
    _finish(added, proposal.root, _next(proposal.name, on=" --on compose" * containers))


def _next(name: str, on: str) -> list[str]:
    return [f"runner run {name}{on}", "runner summarize results/"]


def _finish(added: Additions, root: Path, commands: list[str], *, dry_run: bool = False) -> None:
    """Write the files and say so, or show them."""
    for note in added.notes:
        say(f"note: {note}")
    if dry_run:
        for change in added.changes:
            show_document(change.diff(root))
        return
    write(root, added.changes, added.folders)
    for change in added.changes:
        show(f"{'wrote' if change.before is None else 'added to'} {change.path.relative_to(root).as_posix()}")
    for word, command in zip(("next", "then"), commands, strict=True):
        show(f"{word}: {command}")


def _introduce(proposal: Proposal) -> None:
    """Print which project and which script this is about."""
    source = proposal.settings.source
    known = f" ({source.name})" if source else "" if proposal.repository.top else " (without git)"
    say(f"project: {proposal.root}{known}")
    say(f"script: {proposal.choice.modules.script}: {proposal.choice.why}")


def _show_diff(proposal: Proposal, *, containers: bool) -> None:
    added = _checked(proposal, _unread(proposal), containers=containers)
    _finish(added, proposal.root, [], dry_run=True)
    if _unread(proposal) == unread():
        say("nothing is written; the dialect and the measure are chosen by a first run of the script, which comes then")


def _unread(proposal: Proposal) -> Reading:
    """Return how the output is read if it was never seen."""
    return Reading((), "train_seconds", ("event lines",)) if proposal.traits.events else unread()


def _checked(proposal: Proposal, reading: Reading, *, containers: bool) -> Additions:
    """Load the definition as it will be, before anything is written."""
    with trial.scratch() as folder:
        if containers:
            return of_proposal(proposal, reading, folder)
        proposal.experiment(reading, folder)
    return Additions(proposal.changes(reading))


def _try(proposal: Proposal, device: str, seconds: float) -> Reading:
    """Start the script once, and say how its output is read."""
    if importlib.util.find_spec("torch") is None:
        raise RequestError(failure.torch_is_missing())
    with trial.scratch() as folder:
        experiment = proposal.experiment(_unread(proposal), folder)
        short = arguments.for_first_try(proposal.program, proposal.args)
        plan = trial.plan_trial(experiment, device, short, seconds)
        say(f"starts: {plan.cells[0].command()}  (once, with one process on {device}, for {seconds:g} s at most)")
        screen = trial.TrialScreen()
        with signals.taken() as interrupts, screen:
            tried = trial.try_once(plan, folder / "results", screen, interrupts)
        script = proposal.choice.modules.script
        if tried.failed:
            said, worth_keeping = failure.describe(tried, proposal.root, script, proposal.program)
            if worth_keeping:
                trial.keep(folder)
            raise RequestError(said)
        say(f"ended: {_how(tried, seconds)}")
        if short:
            words = " ".join(f"--set {key}={value}" for key, value in short.items())
            say(f"note: this run was a short one; for a quick table of such: runner run {proposal.name} {words}")
        return recognise(tried)


def _how(tried: trial.Trial, seconds: float) -> str:
    took = tried.record.metrics.get("wall_seconds", seconds)
    if tried.ended_early:
        return f"by runner init after {took:.0f} s, before it was done: a run of its own may take timeout_seconds"
    return f"after {took:.1f} s, by itself"


def _say_output(proposal: Proposal, reading: Reading, *, tried: bool) -> None:
    """Print how the output is read, and what else a person should know."""
    if reading.dialects == ("none",) and not tried:
        say("output: not looked at, so a run is timed from its launch to its end; docs/dialects.md lists dialects")
    elif reading.dialects == ("none",):
        say("output: no dialect reads it, so a run is timed from its launch to its end; docs/dialects.md adds one")
    elif reading.dialects:
        say(f"output: read by {' and '.join(reading.dialects)}: {', '.join(reading.fields)}")
    else:
        say("output: event lines of the kit")
    if reading.note:
        say(f"note: {reading.note}")
    code, _ = describe_repository(proposal.root)
    if code.get("git"):
        say(f"note: {code['git']}")
    if code.get("diff_sha256"):
        say("note: there are changes that are not committed: each run keeps their diff")
