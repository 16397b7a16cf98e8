"""`runner init`."""

import difflib
from typing import Annotated, Optional

import typer

from runner.cli.lines import say, show, show_document
from runner.cli.options import Change, Device, device_of, here
from runner.core.output import write_outputs
from runner.core.temporary import temporary_folder
from runner.logs.dialect import NONE
from runner.tools.init.first_run import read_first_run, say_output, say_script, say_state, unread
from runner.tools.init.proposal import propose


def init(
    script: Annotated[
        Optional[str], typer.Argument(metavar="[SCRIPT]", help="The training script; without it, it is looked for.")
    ] = None,
    arguments: Annotated[
        Optional[list[str]], typer.Argument(metavar="-- ARGS", help="Its arguments, as on its own command line.")
    ] = None,
    name: Annotated[Optional[str], typer.Option(help="The name of the experiment.")] = None,
    change: Change = None,
    device: Device = "auto",
    try_seconds: Annotated[float, typer.Option(min=1, max=3600, help="When the first run is ended.")] = 60,
    no_try: Annotated[
        bool, typer.Option("--no-try", help="Start nothing; nothing of the output is read then.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would change; write and start nothing.")
    ] = False,
) -> None:
    """Make your repository a project with a first definition.

    The script is not edited. It is started once, so that its output can be read. Nothing that is there is overwritten.
    """
    proposal = propose(here(), script, name, change or [], arguments or [])
    say_script(proposal)
    start = not no_try and not dry_run
    reading = read_first_run(proposal, device_of(device), try_seconds) if start else unread(proposal)
    with temporary_folder("init") as folder:
        proposal.experiment(reading, folder)  # the definition is loaded as it will be, before anything is written
    changes = proposal.changes(reading)
    if dry_run:
        for path, before, after in changes:
            show_document(_diff(path.relative_to(proposal.root).as_posix(), before, after))
        if reading.dialects == (NONE,):
            chosen = "the dialect and the measure are chosen by a first run of the script, which comes then"
            say(f"nothing is written; {chosen}")
        return
    say_output(reading, tried=start)
    say_state(proposal.root)
    write_outputs({path: after.encode() for path, _, after in changes}, below=proposal.root)
    for path, before, _ in changes:
        show(f"{'wrote' if before is None else 'added to'} {path.relative_to(proposal.root).as_posix()}")
    show(f"next: runner run {proposal.name}")
    show("then: runner summarize results/")


def _diff(name: str, before: str | None, after: str) -> str:
    """Return what changes in a file, as `diff -u` shows it."""
    rows = [text.replace("\r\n", "\n").splitlines(keepends=True) for text in (before or "", after)]
    source = "/dev/null" if before is None else f"a/{name}"
    diff = difflib.unified_diff(rows[0], rows[1], source, f"b/{name}")
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in diff)
