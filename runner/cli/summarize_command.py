"""`runner summarize`."""

import gc
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.printing import say, show_document
from runner.core.errors import RequestError


def summarize(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS|KIT", help="The folder of the records, or an archive of `runner bundle`.")
    ] = Path("results"),
    format_: Annotated[
        str,
        typer.Option(
            "--format", metavar="table|markdown|csv|json|latex", help="By default table on a terminal, else markdown."
        ),
    ] = "",
    experiment: Annotated[Optional[str], typer.Option(help="Only this experiment.")] = None,
) -> None:
    """Make the table of the records.

    It shows times, speed-ups and efficiencies with intervals, accuracy, supported claims, and published figures.
    """
    from runner.report.formats import FORMS, document
    from runner.report.summarize import summarize as read

    gc.disable()  # nothing is freed before the end, and garbage collection takes a fifth of the time
    form = format_ or ("table" if sys.stdout.isatty() else "markdown")
    if form not in FORMS:
        raise RequestError(f"--format {form}: choose one of {', '.join(FORMS)}")
    if results.is_file():
        from runner.records.unpacking import opened

        with opened(results) as kit:
            blocks, notes = read(kit.results, experiment)
            altered = [f"{results}: changed since it was packed: {fault}" for fault in kit.faults]
            notes = altered + [kit.within(note) for note in notes]
    else:
        blocks, notes = read(results, experiment)
    for note in notes:
        say(f"note: {note}")
    if form != "table":
        show_document(document(form, blocks))
        return
    from runner.cli.terminal import print_table
    from runner.report.table import to_table

    for table in map(to_table, blocks):
        print_table(table)
