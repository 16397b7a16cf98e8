"""`runner summarize`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.lines import say, show_document
from runner.core.errors import RequestError


def summarize(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The folder of the records.")] = Path("results"),
    format_: Annotated[
        str, typer.Option("--format", metavar="table|markdown|csv|json", help="table on a terminal, else markdown.")
    ] = "",
    experiment: Annotated[Optional[str], typer.Option(help="Only this experiment.")] = None,
) -> None:
    """Make the table of the records.

    Time, speed-up and efficiency with their intervals, accuracy, what may be claimed, and the published figures.
    """
    import gc

    from runner.report import formats
    from runner.report.summarize import summarize as make

    gc.disable()  # no record is dropped before the end, and looking for dropped ones takes a fifth of the time
    chosen = format_ or ("table" if sys.stdout.isatty() else "markdown")
    if chosen not in formats.FORMATS:
        msg = f"--format {chosen}: there is {', '.join(formats.FORMATS)}"
        raise RequestError(msg)
    blocks, notes = make(results, experiment)
    for note in notes:
        say(f"note: {note}")
    if chosen == "table":
        from runner.cli.terminal import print_table

        for block in blocks:
            print_table(formats.to_table(block))
        return
    write = {"json": formats.as_json, "csv": formats.as_csv, "markdown": formats.as_markdown}[chosen]
    show_document(write(blocks))
