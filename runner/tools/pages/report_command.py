"""`runner report`."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.lines import say
from runner.core.errors import RequestError


def report(
    results: Annotated[
        Optional[list[Path]], typer.Argument(metavar="RESULTS...", help="One or several folders of records.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    experiment: Annotated[Optional[str], typer.Option(help="Only this experiment.")] = None,
    plots: Annotated[
        Optional[Path], typer.Option(metavar="FOLDER", help="Also write each plot here, as PNG and SVG.")
    ] = None,
) -> None:
    """Make one HTML file of the records, with plots.

    It needs no network, and can be sent and printed. It shows speed-up, efficiency, phases, loss and accuracy,
    bandwidth and load, the table with every number's runs, and what may not be claimed and why.
    """
    import gc

    from runner.tools.pages.files import write_report
    from runner.tools.pages.style import require_plots

    gc.disable()  # as for `summarize`
    if plots:
        require_plots("runner report --plots")
    folders = results or [Path("results")]
    for archive in folders:
        if archive.is_file():
            msg = f"{archive}: no folder of records; an archive of runner bundle has its report.html in it"
            raise RequestError(msg)
    for written in (output, *([plots / "plot"] if plots else [])):
        for folder in written.absolute().parents:
            if (folder / "run.json").exists():  # nothing is added to a run that has ended
                raise RequestError(f"{written}: it lies in the folder of a run, {folder}: name another place")
    for line in write_report(folders, output, experiment=experiment, plots=plots):
        say(line)
