"""`runner summarize`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.commands import capability
from runner.cli.lines import say, show_document
from runner.core.errors import RequestError
from runner.report.run_summary import RunSummary


def summarize(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS|KIT", help="The folder of the records, or an archive of `runner bundle`.")
    ] = Path("results"),
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

    from runner.report.formats import write
    from runner.report.forms import FORMS
    from runner.report.reading import read_results
    from runner.report.summarize import compared

    gc.disable()  # no record is dropped before the end, and looking for dropped ones takes a fifth of the time
    chosen = format_ or ("table" if sys.stdout.isatty() else "markdown")
    if chosen not in FORMS:
        raise RequestError(f"--format {chosen}: there is {', '.join(FORMS)}")
    if results.is_file():
        texts, notes = _of_kit(results, chosen, experiment)
    else:
        contents = read_results(results)
        blocks, notes = compared(results, contents, experiment)
        texts = [write(chosen, block) for block in blocks]
        texts += _predicted(results, contents.runs, chosen, experiment)
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


def _predicted(results: Path, runs: list[RunSummary], form: str, experiment: str | None) -> list[str]:
    """Make tables of what was predicted beside what was measured; only where a network was measured too."""
    from runner.report.formats import TABLES, write_table

    predictions = capability("predictions")
    if predictions is None or form not in TABLES:
        return []
    return [write_table(form, table) for table in predictions.tables_if_known(results, runs, experiment)]


def _of_kit(path: Path, form: str, experiment: str | None) -> tuple[list[str], list[str]]:
    """Make the tables of an archive, with a note for each file of it that was altered."""
    from runner.report.summarize import show

    archive = capability("archive")
    if archive is None:
        raise RequestError(f"{path}: a file, not a folder of records; this kit lacks the tool that opens archives")
    with archive.opened(path) as kit:
        texts, notes = show(kit.results, form, experiment)
        here = f"{kit.folder}/"
        altered = [f"{path}: not as it was packed: {fault}" for fault in kit.faults]
        return [text.replace(here, "") for text in texts], altered + [note.replace(here, "") for note in notes]
