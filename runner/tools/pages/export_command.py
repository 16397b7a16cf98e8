"""`runner export`."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.lines import say, show
from runner.core.errors import RequestError

app = typer.Typer(rich_markup_mode=None, help="Hand the runs to other tools; again adds only what is new.")

Results = Annotated[Path, typer.Argument(metavar="RESULTS", help="The folder of the records.")]
Only = Annotated[Optional[str], typer.Option(metavar="NAME", help="Only this experiment.")]


@app.command()
def mlflow(
    results: Results = Path("results"),
    *,
    to: Annotated[str, typer.Option(metavar="URI", help="http://HOST:PORT of a server, or sqlite:///FILE.")],
    experiment: Only = None,
) -> None:
    """Write every run to MLflow: parameters, figures, and curves over epochs. Needs `make mlflow` once."""
    from runner.tools.pages.export import mlflow_store
    from runner.tools.pages.export.runs import exported_runs

    notes: list[str] = []
    counts = mlflow_store.export(exported_runs(results, experiment, notes), to, say)
    _say_all(notes)
    total = f"{sum(counts):,} runs are in {mlflow_store.without_credentials(to)}"
    show(f"{total}: {counts.new:,} new, {counts.replaced:,} replaced, {counts.unchanged:,} unchanged")


@app.command()
def tensorboard(
    results: Results = Path("results"),
    *,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where tensorboard --logdir will look.")],
    experiment: Only = None,
) -> None:
    """Write an event file for every run: curves, load, figures and parameters. Needs `make report` once."""
    from runner.tools.pages.export import tensorboard_files
    from runner.tools.pages.export.runs import exported_runs

    if to.resolve().is_relative_to(results.resolve()):
        raise RequestError(f"--to {to}: it lies in {results}, which only runs write: name another folder")
    notes: list[str] = []
    done, changed = tensorboard_files.export(exported_runs(results, experiment, notes), to)
    _say_all(notes)
    show(f"{done:,} runs are in {to}: {changed:,} files written, {done - changed:,} unchanged")


def _say_all(notes: list[str]) -> None:
    for note in notes:
        say(f"note: {note}")
