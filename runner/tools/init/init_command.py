"""The command `runner init`."""

from typing import Annotated, Optional

import typer

from runner.cli.options import Change, Device, device_of, here
from runner.cli.printing import say, show, show_document
from runner.core.output import write_outputs
from runner.core.temporary import temporary_folder
from runner.logs.dialect import NONE
from runner.records.folder import keep_out_of_git
from runner.tools.init.first_run import read_first_run, say_output, unread
from runner.tools.init.proposal import propose


def init(
    script: Annotated[
        Optional[str],
        typer.Argument(metavar="[SCRIPT]", help="The training script; found by its contents if not given."),
    ] = None,
    arguments: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="-- ARGS", help="The script's arguments, as on its own command line."),
    ] = None,
    name: Annotated[Optional[str], typer.Option(help="Name of the experiment, instead of the script's.")] = None,
    change: Change = None,
    device: Device = "auto",
    try_seconds: Annotated[float, typer.Option(min=1, max=3600, help="Time limit of the first run, in seconds.")] = 60,
    no_try: Annotated[
        bool, typer.Option("--no-try", help="Do not start the script; its output is not read then.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the files; write and start nothing.")] = False,
) -> None:
    """Turn your repository into a project with a first definition.

    The script is started once, to learn how to read its output. It is not edited, and no file is overwritten.
    """
    proposal = propose(here(), script, name, change or [], arguments or [])
    source = proposal.settings.source
    say(f"project: {proposal.root}" + (f" ({source.name})" if source else ""))
    say(f"script: {proposal.modules.script}: {proposal.modules.why}")
    start = not no_try and not dry_run
    reading = read_first_run(proposal, device_of(device), try_seconds) if start else unread(proposal)
    with temporary_folder("init") as folder:
        proposal.experiment(reading, folder)  # fails before anything is written
    files = proposal.files(reading)
    if dry_run:
        for path, text in files.items():
            show_document(f"# {path.relative_to(proposal.root)}\n{text}")
        if reading.dialects == (NONE,):
            chosen = "the first run, which --dry-run leaves out, chooses the dialect and the measure"
            say(f"nothing was written; {chosen}")
        return
    say_output(reading, tried=start)
    write_outputs({path: text.encode() for path, text in files.items()}, below=proposal.root)
    keep_out_of_git(proposal.root / "results")
    for path in files:
        show(f"wrote {path.relative_to(proposal.root)}")
    show(f"next: runner run {proposal.name}")
    show("then: runner summarize results/")
