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
        str,
        typer.Option("--format", metavar="table|markdown|csv|json|latex", help="table on a terminal, else markdown."),
    ] = "",
    experiment: Annotated[Optional[str], typer.Option(help="Only this experiment.")] = None,
) -> None:
    """Make the table of the records.

    Time, speed-up and efficiency with their intervals, accuracy, what may be claimed, and the published figures.
    """
    import gc

    from runner.report.forms import FORMS
    from runner.report.show import show

    gc.disable()  # no record is dropped before the end, and looking for dropped ones takes a fifth of the time
    chosen = format_ or ("table" if sys.stdout.isatty() else "markdown")
    if chosen not in FORMS:
        msg = f"--format {chosen}: there is {', '.join(FORMS)}"
        raise RequestError(msg)
    texts, notes = show(results, chosen, experiment)
    for note in notes:
        say(f"note: {note}")
    if chosen == "table":
        from runner.cli.terminal import print_table
        from runner.report.table import read_table

        for text in texts:
            print_table(read_table(text))
        return
    for part in FORMS[chosen].document(texts):
        show_document(part)
