"""What no key of a definition says alone: programs take the args, and every row belongs to a cell that is run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import shown
from runner.core.yaml_reader import Document
from runner.definitions import data, program
from runner.definitions.axes import agrees, values_of
from runner.definitions.definition import Experiment
from runner.definitions.fields import PROGRAM


def check(document: Document, experiment: Experiment) -> None:
    """Compare the keys with one another, with the project's programs and with its families."""
    if experiment.name != experiment.path.stem:
        meant = f"the name '{experiment.name}' has to be that of the file, '{experiment.path.stem}'"
        document.fail(meant, "name")
    if experiment.data is not None and (wrong := data.missing(experiment.root, experiment.data)):
        document.fail(wrong, "data")
    if wrong := refused_layout(experiment, experiment.matrix["layout"]):
        document.fail(wrong, "matrix", "layout")
    _check_programs(document, experiment)
    _check_cells_exist(document, experiment)


def refused_layout(experiment: Experiment, layouts: Iterable[object]) -> str | None:
    """Say which layout a program that starts its processes itself cannot have."""
    several = [one for one in layouts if str(one) != "1x1"]
    if experiment.launcher == "torchrun" or not several:
        return None
    return f"layout {several[0]}: with launcher python the program starts its processes itself; only 1x1 can be run"


def _check_programs(document: Document, experiment: Experiment) -> None:
    """Find every program and ask it whether it takes the args; a matrix of programs has to share them."""
    in_matrix = experiment.matrix.get("program", [])
    for index, name in enumerate(in_matrix):
        if not isinstance(name, str) or not re.fullmatch(PROGRAM.pattern, name):
            document.fail(f"program {shown(name)} has to be {PROGRAM.meant}", "matrix", "program", index)
    places: dict[str, tuple[str | int, ...]] = {experiment.program: ("program",)}
    places |= {name: ("matrix", "program", index) for index, name in enumerate(in_matrix)}
    for name, place in places.items():
        try:
            found = program.find(experiment.root, name, experiment.settings)
        except RequestError as error:
            document.fail(str(error), *place)
        for key, value, where in _passed(experiment, name):
            try:
                found.check(key, value)
            except RequestError as error:
                document.fail(str(error), *where)


def _passed(experiment: Experiment, name: str) -> list[tuple[str, Any, tuple[str | int, ...]]]:
    """List every value that a program may be given, with its place."""
    own = experiment.program_args.get(name, {})
    axes = {axis: values for axis, values in experiment.matrix.items() if axis not in ("layout", "program")}
    return [
        *((key, value, ("args", key)) for key, value in experiment.args.items()),
        *((key, value, ("program_args", name, key)) for key, value in own.items()),
        *((key, value, ("matrix", key, index)) for key in axes for index, value in enumerate(axes[key])),
    ]


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
    if experiment.baseline and not any(agrees(cell, experiment.baseline) for cell in cells):
        document.fail("the baseline is skipped: it matches no cell", "baseline")
