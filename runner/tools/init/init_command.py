"""`runner init`."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.lines import say, show, show_document
from runner.cli.options import Change, Device, device_of, here
from runner.core.temporary import temporary_folder
from runner.logs.dialect import NONE
from runner.tools.init.changes import write
from runner.tools.init.containers import Additions, defined, of_project, of_proposal
from runner.tools.init.first_run import read_first_run, say_output, say_script, say_state, unread
from runner.tools.init.proposal import propose


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
        _finish(of_project(experiment), experiment.root, experiment.name, containers=True, dry_run=dry_run)
        return

    proposal = propose(here(), script, name, change or [])
    say_script(proposal)
    start = not no_try and not dry_run
    reading = read_first_run(proposal, device_of(device), try_seconds) if start else unread(proposal)
    with temporary_folder("init") as folder:  # the definition is loaded as it will be, before anything is written
        experiment = proposal.experiment(reading, folder)
        added = of_proposal(proposal, reading, experiment) if containers else Additions(proposal.changes(reading))
    if not dry_run:
        say_output(reading, tried=start)
        say_state(proposal.root)
    _finish(added, proposal.root, proposal.name, containers=containers, dry_run=dry_run)
    if dry_run and reading.dialects == (NONE,):
        chosen = "the dialect and the measure are chosen by a first run of the script, which comes then"
        say(f"nothing is written; {chosen}")


def _finish(added: Additions, root: Path, name: str, *, containers: bool, dry_run: bool) -> None:
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
    show(f"next: runner run {name}{' --on compose' if containers else ''}")
    show("then: runner summarize results/")
