"""`runner plan`."""

from typing import Annotated, Optional

import typer

from runner.cli.options import (
    NAME,
    Change,
    Device,
    Env,
    Layouts,
    Only,
    Repeat,
    experiment_of,
    project_root,
    select,
    show_project,
    show_rows,
)
from runner.cli.printing import say, show, show_document
from runner.core.errors import RequestError
from runner.definitions import experiment as definition
from runner.definitions.data import help_of
from runner.definitions.plan import make_plan


def plan(
    experiment: Annotated[Optional[str], NAME] = None,
    only: Only = None,
    layout: Layouts = None,
    change: Change = None,
    env: Env = None,
    repeat: Repeat = None,
    device: Device = "auto",
    probe: Annotated[
        bool, typer.Option("--probe", help="Also start each program once with --help, and show its output.")
    ] = False,
) -> None:
    """List the experiments, or what one would run; start nothing.

    For one experiment, show the command of every cell, and why cells are left out.
    """
    if experiment is None:
        _list()
        return
    made = make_plan(experiment_of(experiment), select(**locals()))
    first = made.runs[0]
    rows: list[tuple[str, ...]] = []
    for cell in made.cells:
        world = cell.layout.world_size
        rows.append((str(cell), f"{world} process{'es' * (world > 1)}, n = {first.repeats}", cell.command()))
    rows += [(name, "left out", why) for name, why in made.skipped]
    show_rows(rows)
    limit = first.experiment.timeout_seconds
    show(f"{len(made.runs)} runs on {first.device}, each {limit:g} s at most")
    show_project()
    for program in {cell.program.name: cell.program for cell in made.cells}.values() if probe else ():
        show_document(f"{program.name} --help:\n{help_of(program, first.experiment.root)}")


def _list() -> None:
    root = project_root()
    rows, broken = list[tuple[str, ...]](), list[RequestError]()
    for path in definition.files(root):
        try:
            experiment = definition.load(path, root)
        except RequestError as error:
            broken.append(error)
            continue
        rows.append((experiment.name, experiment.summary, experiment.published.source if experiment.published else ""))
    if not rows and not broken:
        raise RequestError(f"{root}: there are no experiments; runner init writes the first")
    show_rows(rows)
    show_project()
    for wrong in broken:
        say(f"error: {wrong}")
    if broken:
        raise typer.Exit(RequestError.exit_code)
