"""Implement `runner report`."""

from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.printing import say, show
from runner.core.errors import RequestError

PAGE, MLFLOW = "report.html", "mlflow"


def report(
    results: Annotated[
        Optional[list[Path]], typer.Argument(metavar="RESULTS|KIT...", help="Folders of records, or archives of them.")
    ] = None,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="The page; for MLflow http://HOST:PORT or sqlite:///FILE."),
    ] = PAGE,
    experiment: Annotated[Optional[str], typer.Option(help="Only this experiment.")] = None,
    plots: Annotated[
        Optional[Path], typer.Option(metavar="FOLDER", help="Also write each plot to this folder, as PNG and SVG.")
    ] = None,
    to: Annotated[Optional[str], typer.Option(metavar=MLFLOW, help="Write the runs to MLflow, not a page.")] = None,
) -> None:
    """Make one HTML file of the records, with plots.

    The page is self-contained, works offline and can be printed. It shows speed-up, phases, loss and accuracy,
    bandwidth and load, a table whose numbers link to their runs, and why claims were refused.
    """
    import gc

    from runner.tools.pages.files import write_report
    from runner.tools.pages.style import require_plots

    gc.disable()  # as in `runner summarize`, to save time
    folders = results or [Path("results")]
    if to is not None:
        _to_mlflow(folders, to, output, experiment, plots)
        return
    if plots:
        require_plots("runner report --plots")
    for written in (Path(output), *([plots / "plot"] if plots else [])):
        for folder in written.absolute().parents:
            if (folder / "run.json").exists():  # the folder of an ended run must not change
                raise RequestError(f"{written}: inside the folder of a run, {folder}; choose another place")
    for line in write_report(folders, Path(output), experiment=experiment, plots=plots):
        say(line)


def _to_mlflow(sources: list[Path], to: str, uri: str, experiment: str | None, plots: Path | None) -> None:
    from runner.records.unpacking import opened
    from runner.tools.pages import mlflow_store
    from runner.tools.pages.exported import exported_runs

    if to != MLFLOW or uri == PAGE or plots:
        msg = f"--to {to}: only `{MLFLOW}`, with -o http://HOST:PORT or -o sqlite:///FILE and without --plots"
        raise RequestError(msg)
    notes: list[str] = []
    with ExitStack() as stack:
        folders = (stack.enter_context(opened(path)).results if path.is_file() else path for path in sources)
        runs = chain.from_iterable(exported_runs(folder, experiment, notes) for folder in folders)
        counts = mlflow_store.export(runs, uri, say)
    for note in notes:
        say(f"note: {note}")
    total = f"{sum(counts):,} runs are in {mlflow_store.without_credentials(uri)}"
    show(f"{total}: {counts.new:,} new, {counts.replaced:,} replaced, {counts.unchanged:,} unchanged")
