"""What no key of a definition says alone: every program is there, and every row belongs to a cell that is run."""

from collections.abc import Iterable
from typing import Any

from runner.core.errors import RequestError, did_you_mean
from runner.core.secrets import refuse_args
from runner.core.yaml_reader import Document
from runner.definitions import data, program
from runner.definitions.axes import values_of
from runner.definitions.definition import Experiment


def check(document: Document, experiment: Experiment) -> None:
    """Compare the keys with one another, with the project's programs and with its families."""
    if experiment.name != experiment.path.stem:
        meant = f"the name '{experiment.name}' has to be that of the file, '{experiment.path.stem}'"
        document.fail(meant, "name")
    if experiment.data is not None and (wrong := data.missing(experiment.root, experiment.data)):
        document.fail(wrong, "data")
    if wrong := refused_layout(experiment, experiment.matrix["layout"]):
        document.fail(wrong, "matrix", "layout")
    _refuse_secrets(document, experiment)
    _check_args(document, experiment)
    _check_programs(document, experiment)
    _check_cells_exist(document, experiment)


def refused_layout(experiment: Experiment, layouts: Iterable[object]) -> str | None:
    """Return why a program that starts its processes itself cannot have one of the layouts, if it cannot."""
    several = [layout for layout in layouts if str(layout) != "1x1"]
    if experiment.launcher == "torchrun" or not several:
        return None
    return f"layout {several[0]}: with launcher python the program starts its processes itself; only 1x1 can be run"


def _refuse_secrets(document: Document, experiment: Experiment) -> None:
    groups: dict[tuple[str, ...], dict[str, Any]] = {("args",): experiment.args, ("matrix",): experiment.matrix}
    groups |= {("program_args", name): args for name, args in experiment.program_args.items()}
    for path, args in groups.items():
        for key, value in args.items():
            try:
                refuse_args(value, key)
            except RequestError as error:
                document.fail(str(error), *path, key)


def _check_args(document: Document, experiment: Experiment) -> None:
    """Refuse an arg that is an axis too, and args of a program that is not in the matrix."""
    matrix = experiment.matrix
    for key in experiment.args:
        if key in matrix:
            document.fail(f"'{key}' stands in args and in the matrix; keep one of them", "args", key)
    names = matrix.get("program", [])
    for name, args in experiment.program_args.items():
        if name not in names:
            document.fail(f"'{name}' is no program of the matrix{did_you_mean(name, names)}", "program_args", name)
        for key in args:
            if key in matrix:
                document.fail(f"'{key}' stands here and in the matrix; keep one of them", "program_args", name, key)


def _check_programs(document: Document, experiment: Experiment) -> None:
    """Find every program."""
    places: dict[str, tuple[str | int, ...]] = {experiment.program: ("program",)}
    places |= {name: ("matrix", "program", index) for index, name in enumerate(experiment.matrix.get("program", []))}
    for name, place in places.items():
        try:
            program.find(experiment.root, name, experiment.settings)
        except RequestError as error:
            document.fail(str(error), *place)


def _check_cells_exist(document: Document, experiment: Experiment) -> None:
    """Refuse a published row or a baseline that belongs to no cell which is ever run."""
    cells = [cell for cell, skip in experiment.cells() if skip is None]
    if not cells:
        document.fail("every cell is skipped: nothing is left to run", "skip")
    rows = experiment.published["rows"] if experiment.published else []
    run: dict[tuple[str, ...], set[tuple[object, ...]]] = {}  # by the axes that a row names: its values in all cells
    for index, row in enumerate(rows):
        named = tuple(key for key in row if key in experiment.matrix)
        if named not in run:
            run[named] = {values_of(cell, named) for cell in cells}
        if values_of(row, named) not in run[named]:
            values = {key: row[key] for key in named}
            document.fail(f"the row matches no cell: {values} is skipped", "published", "rows", index)
    named = tuple(experiment.baseline)
    if not any(values_of(cell, named) == values_of(experiment.baseline, named) for cell in cells):
        document.fail("the baseline is skipped: it matches no cell", "baseline")
