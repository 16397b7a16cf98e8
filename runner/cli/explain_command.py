"""`runner explain`."""

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.printing import show, show_document
from runner.core.errors import RequestError, reason_of


def explain(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run's folder, results/<experiment>/<run>, or its run.json.")
    ],
) -> None:
    """Show where a run's time went, what slows it and what helps.

    Programs report, by rank and epoch, the time spent waiting for data, computing, exchanging, and waiting for the
    slowest rank. A rank or a link is named only if there is no doubt.
    """
    from runner.records.folder import RunFolder
    from runner.report.bottlenecks import explain

    folder = run.parent if run.name == "run.json" else run
    try:
        record = RunFolder(folder).read()
    except (OSError, ValueError) as error:
        why = f"{reason_of(error)}: name a run's folder, results/<experiment>/<run>"
        raise RequestError(f"{folder / 'run.json'}: {why}") from None
    lines, bars, legend = explain(record)
    for text in lines:
        show(text)
    if bars:
        width = max(len(name) for name, _, _ in bars)
        rows = (f"{name.ljust(width)}  {bar}  {figures}".rstrip() for name, bar, figures in bars)
        show_document("\n".join(["", *rows, legend, ""]))
