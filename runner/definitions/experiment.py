"""Find, load and check the definitions of a project, with errors that name file and line."""

import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from runner.core import yaml_reader
from runner.core.errors import RequestError, did_you_mean
from runner.core.layout import Layout
from runner.core.secrets import refuse_args
from runner.core.text import one_line, shown
from runner.core.yaml_reader import Document
from runner.definitions import data, program
from runner.definitions.args import wrong_name
from runner.definitions.definition import Cells, Definition, Experiment, ProgramName, Row, Skip, agrees, identity
from runner.definitions.environment import PREFIX, is_variable, wrong_variable
from runner.definitions.gate import decode
from runner.definitions.program import Program
from runner.definitions.settings import Settings, read_text, settings_of
from runner.logs import dialect, metrics

__all__ = ["Experiment", "files", "find", "load"]
MOST_CELLS = 10_000
MEASURES = ("sample_seconds", "wall_seconds", "stated_seconds")
"""The times of a program whose output a dialect reads: per sample, by the runner's clock, and as printed."""


def load(path: Path, root: Path, settings: Settings | None = None) -> Experiment:
    """Load and check one definition. Raises RequestError, with file and line, for any mistake in the definition.

    Pass `settings` if the project's settings file is not written yet.
    """
    document, settings = yaml_reader.read(path), settings or settings_of(root)
    values = document.values
    if isinstance(values, dict):  # a key without a value counts as left out
        values = {key: value for key, value in values.items() if value is not None}
        measure = str(values.get("measure", MEASURES[0]))
        if not measure.endswith("_seconds"):
            near = did_you_mean(measure, ("train_seconds", "total_seconds", *MEASURES))
            document.fail(f"'measure' has to be a time in seconds{near}", "measure")
    definition: Definition = decode(document, Definition, values)
    if definition.name != path.stem:
        document.fail(f"the name '{definition.name}' has to be that of the file, '{path.stem}'", "name")
    _refuse_twins(path, root)
    if definition.data is not None:
        with _at(document, "data"):
            data.require(root, definition.data)
    _check_matrix(document, definition)
    _check_args(document, definition)
    _check_environment(document, definition)
    dialects = _read_dialects(document, definition, root)
    experiment = Experiment(
        **msgspec.structs.asdict(definition),
        path=path,
        root=root,
        settings=settings,
        programs=_find_programs(document, definition, root, settings),
        dialects=dialects,
    )
    experiment.measure = _measure(document, experiment)
    _check_cells(document, experiment)
    return experiment


@contextmanager
def _at(document: Document, *place: str | int) -> Iterator[None]:
    try:
        yield
    except (RequestError, ValueError) as error:
        document.fail(str(error), *place)


def _refuse_twins(path: Path, root: Path) -> None:
    twins = [other for other in files(root) if other.stem == path.stem]
    if len(twins) > 1 and path.resolve() in [other.resolve() for other in twins]:
        places = " and ".join(str(other.relative_to(root)) for other in sorted(twins))
        raise RequestError(one_line(f"the name '{path.stem}' is used twice: {places}; rename one of them"))


def _check_matrix(document: Document, definition: Definition) -> None:
    if "layout" not in definition.matrix:
        document.fail("'matrix' needs the axis 'layout', for example layout: [1x1, 1x2]", "matrix")
    for axis, values in definition.matrix.items():
        points = set()
        for index, value in enumerate(values):
            place = ("matrix", axis, index)
            if axis == "program":
                decode(document, ProgramName, value, *place)
            if axis == "layout":
                with _at(document, *place):
                    values[index] = str(Layout.parse(value))
            if identity(values[index]) in points:
                document.fail(f"{axis} {values[index]} is listed twice", *place)
            points.add(identity(values[index]))
    if wrong := too_many(definition.matrix) or refused_layout(definition, definition.matrix["layout"]):
        document.fail(wrong, "matrix", "layout")


def too_many(matrix: dict[str, list[Any]]) -> str | None:
    """Return the text of an error if a matrix has too many cells, else None."""
    cells = math.prod(map(len, matrix.values()))
    if cells <= MOST_CELLS:
        return None
    return f"the matrix has {cells:,} cells; {MOST_CELLS:,} are the most: split the experiment"


def refused_layout(definition: Definition, layouts: Iterable[object]) -> str | None:
    """Return why a layout is refused, or None. A program that starts its own processes can only run 1x1."""
    several = [layout for layout in layouts if str(layout) != "1x1"]
    if definition.launcher == "torchrun" or not several:
        return None
    return f"layout {several[0]}: with launcher python the program starts its own processes, so only 1x1 can be run"


def _check_args(document: Document, definition: Definition) -> None:
    matrix = definition.matrix
    groups: dict[tuple[str, ...], dict[str, Any]] = {("args",): definition.args, ("matrix",): matrix}
    for name, args in definition.program_args.items():
        groups["program_args", name] = args
        if name not in (programs := matrix.get("program", [])):
            document.fail(f"the matrix has no program '{name}'{did_you_mean(name, programs)}", "program_args", name)
    for place, args in groups.items():
        for key, value in args.items():
            if wrong := None if args is matrix and is_variable(key) else wrong_name(key):
                document.fail(wrong, *place, key)
            if key in matrix and args is not matrix:
                document.fail(f"'{key}' is both an arg and an axis of the matrix; keep one", *place, key)
            with _at(document, *place, key):
                refuse_args(value, key)


def _check_environment(document: Document, definition: Definition) -> None:
    places: list[tuple[tuple[str, ...], str, Any]] = [
        (("env", name), name, value) for name, value in definition.env.items()
    ]
    for axis in filter(is_variable, definition.matrix):
        name = axis.removeprefix(PREFIX)
        if name in definition.env:
            document.fail(f"'{name}' is both in env and an axis of the matrix; keep one", "env", name)
        places += [(("matrix", axis), name, value) for value in definition.matrix[axis]]
    for place, name, value in places:
        if wrong := wrong_variable(name, value):
            document.fail(wrong, *place)
        with _at(document, *place):
            refuse_args(value, name)


def _find_programs(document: Document, definition: Definition, root: Path, settings: Settings) -> dict[str, Program]:
    places: dict[Any, tuple[str | int, ...]] = {definition.program: ("program",)}
    places |= {name: ("matrix", "program", index) for index, name in enumerate(definition.matrix.get("program", []))}
    found = {}
    for name, place in places.items():
        with _at(document, *place):
            found[name] = replace(program.find(root, name, settings), alone=definition.launcher == "python")
    return found


def _read_dialects(document: Document, definition: Definition, root: Path) -> dict[str, str]:
    for name, said in definition.metrics.items():
        with _at(document, "metrics", name):
            if not re.fullmatch(metrics.NAME, name):
                raise RequestError(f"metric '{name}': a name has lower-case letters, digits and _, 40 at most")
            metrics.compiled({name: {"pattern": said if isinstance(said, str) else said.pattern}})
    words = definition.dialect or []
    texts = {}
    for word in [words] if isinstance(words, str) else words:
        with _at(document, "dialect"):
            texts[word] = ""
            if word.endswith((".yaml", ".yml")):
                dialect.load(root / word)
                texts[word] = read_text(root / word).removeprefix("\ufeff")
            elif word not in dialect.names():
                known = did_you_mean(word, dialect.names())
                raise RequestError(f"no dialect '{word}' in docs/dialects.md{known}")
    return texts


def _measure(document: Document, experiment: Experiment) -> str:
    measure = experiment.measure
    if not experiment.dialects or (measure in MEASURES[:2]):
        return measure
    if measure == MEASURES[2]:
        if "seconds" not in experiment.metrics:
            document.fail(f"measure '{measure}' needs the metric 'seconds', which reads it", "measure")
        return measure
    if "measure" in document.values:
        known = f"a program read by a dialect has only {', '.join(MEASURES)}"
        document.fail(f"measure '{measure}': {known}", "measure")
    return MEASURES[0]


def _check_cells(document: Document, experiment: Experiment) -> None:
    rows = experiment.published.rows if experiment.published else []
    compared: list[tuple[tuple[str | int, ...], dict[str, Any]]] = [
        (("published", "rows", index), row) for index, row in enumerate(rows)
    ]
    for index, row in enumerate(experiment.skip):
        _check_row(document, experiment, Skip, row, "skip", index)
    for place, row in compared:
        _check_row(document, experiment, Row, row, *place)
    _check_row(document, experiment, Cells, experiment.baseline, "baseline")
    run = [point for point, why in experiment.cells() if why is None]
    if not run:
        document.fail("every cell is skipped: nothing is left to run", "skip")
    for row_place, row in [(("baseline",), experiment.baseline), *compared]:
        if not any(agrees(row, point) for point in run):
            document.fail(f"'{row_place[0]}' matches only cells that are skipped", *row_place)


def _check_row(
    document: Document, experiment: Experiment, kind: type[Cells], row: dict[str, Any], *place: str | int
) -> None:
    own, matrix = kind.__struct_fields__, experiment.matrix
    decode(document, kind, {key: value for key, value in row.items() if key in own}, *place)
    for axis in row.keys() - {*own}:
        if axis not in matrix:
            document.fail(f"unknown key '{axis}'{did_you_mean(axis, (*own, *matrix))}", *place, axis)
        if axis == "layout":
            with _at(document, *place, axis):
                row[axis] = str(Layout.parse(row[axis]))
        if identity(row[axis]) not in map(identity, matrix[axis]):
            near = did_you_mean(row[axis], matrix[axis])
            document.fail(f"{axis} {shown(row[axis])} matches no cell{near}", *place, axis)


def files(root: Path) -> list[Path]:
    """List a project's definition files, inside and outside of families.

    If a folder is a link or cannot be read, the folder itself is listed, so that `load` reports it.
    """
    folder = settings_of(root).folder
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return [folder] if folder.exists() else []
    found: list[Path] = []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            try:
                found += [path for path in Path(entry.path).iterdir() if path.name.endswith(".yaml")]
            except OSError:
                found.append(Path(entry.path))
        elif entry.name.endswith(".yaml") or (entry.is_symlink() and entry.is_dir()):
            found.append(Path(entry.path))
    return sorted(found, key=lambda path: path.stem)


def find(name: str, root: Path) -> Path:
    """Return the path of a definition, given its name or its path. Raises RequestError for an unknown name."""
    as_path = Path(name)
    if as_path.suffix in (".yaml", ".yml") or os.path.isfile(as_path):  # noqa: PTH113 - a long name is no error
        return as_path
    known = {file.stem: file for file in files(root)}
    if name not in known:
        raise RequestError(f"no experiment '{one_line(name)}' in {settings_of(root).folder}{did_you_mean(name, known)}")
    return known[name]
