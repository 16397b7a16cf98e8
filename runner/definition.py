"""YAML -> Experiment. Every complaint has file:line, what is wrong and what was meant."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import program as programs
from runner import yamlfile
from runner.axes import agrees, canonical_layout, check_axes
from runner.errors import RequestError, did_you_mean
from runner.published import read_published

KEYS = (
    "name",
    "summary",
    "program",
    "args",
    "program_args",
    "scaling",
    "matrix",
    "skip",
    "baseline",
    "measure",
    "repeat",
    "timeout_seconds",
    "published",
)
SCALINGS = ("strong", "weak")
DEVICES = ("cpu", "cuda")
RESERVED = {
    "scaling": "the scaling is declared by the definition's own key 'scaling'",
    "device": "the device is chosen on the command line, by --device",
}
LARGEST_WHOLE = 2**63 - 1
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_ARG = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_PROGRAM = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)+", re.IGNORECASE)
_MEASURE = re.compile(r"[a-z][a-z0-9_]*_seconds")
_MOST_REPEATS = 1000


@dataclass(frozen=True)
class Skip:
    """Cells that are left out: those that agree with `match`, on the device `when` (any if None), and why."""

    match: dict[str, Any]
    when: str | None
    why: str

    def plain(self) -> dict[str, Any]:
        """Return it as the definition has it."""
        return {**self.match, **({"when": self.when} if self.when else {}), "why": self.why}

    def covers(self, cell: dict[str, Any], device: str | None) -> bool:
        """Tell whether a cell is left out on a device."""
        return self.when in (None, device) and agrees(cell, self.match)


@dataclass(frozen=True)
class Experiment:
    """A definition, checked: `matrix` always has the axis `layout`, its values in canonical form."""

    name: str
    summary: str
    program: str
    args: dict[str, Any]
    program_args: dict[str, dict[str, Any]]
    scaling: str
    matrix: dict[str, list[Any]]
    skip: tuple[Skip, ...]
    baseline: dict[str, Any]
    measure: str
    repeat: int
    timeout_seconds: float
    published: dict[str, Any] | None
    path: Path
    root: Path

    def resolved(self) -> dict[str, Any]:
        """Return the definition as plain values with its defaults filled in, for the record."""
        return {
            "name": self.name,
            "summary": self.summary,
            "program": self.program,
            "args": self.args,
            "program_args": self.program_args,
            "scaling": self.scaling,
            "matrix": self.matrix,
            "skip": [skip.plain() for skip in self.skip],
            "baseline": self.baseline,
            "measure": self.measure,
            "repeat": self.repeat,
            "timeout_seconds": self.timeout_seconds,
            "published": self.published,
        }

    def cells(
        self, device: str | None = None, layouts: list[str] | None = None
    ) -> list[tuple[dict[str, Any], Skip | None]]:
        """Return every point of the matrix, and the skip that leaves it out, if one does on this device.

        Other layouts may stand in for the matrix's own.
        """
        matrix = {**self.matrix, "layout": layouts or self.matrix["layout"]}
        points = [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]
        return [(point, next((skip for skip in self.skip if skip.covers(point, device)), None)) for point in points]

    def sha256(self) -> str:
        """Hash the resolved definition."""
        text = json.dumps(self.resolved(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def programs(self) -> dict[str, programs.Program]:
        """Find the program of every cell, by name."""
        names = [self.program, *self.matrix.get("program", [])]
        return {name: programs.find(self.root, name) for name in names}


def project_root(start: Path) -> Path:
    """Return the nearest folder, from `start` upwards, that holds `experiments/`; else the one this package is in."""
    for folder in (start, *start.parents):
        if (folder / programs.PACKAGE).is_dir():
            return folder
    return Path(__file__).resolve().parent.parent


def find(name: str, root: Path) -> Path:
    """Find a definition by its name, `mnist`, or by the path of its file."""
    as_path = Path(name)
    if as_path.suffix in (".yaml", ".yml") or os.path.isfile(as_path):  # noqa: PTH113 - a long name is no error
        return as_path
    path = root / programs.PACKAGE / f"{name}.yaml"
    if not os.path.isfile(path):  # noqa: PTH113 - as above
        known = [file.stem for file in files(root)]
        msg = f"no experiment '{name}' in {root / programs.PACKAGE}{did_you_mean(name, known)}"
        raise RequestError(msg)
    return path


def files(root: Path) -> list[Path]:
    """List the definitions of a project."""
    return sorted((root / programs.PACKAGE).glob("*.yaml"))


def load(path: Path, root: Path) -> Experiment:
    """Read and check one definition; RequestError with file:line if anything in it is wrong."""
    document = yamlfile.read(path)
    values = document.values
    if not isinstance(values, dict):
        document.fail(f"a definition is a mapping with the keys {', '.join(KEYS)}")
    document.only_keys(KEYS)
    matrix = _matrix(document)
    experiment = Experiment(
        name=_text(document, "name", _NAME, "lower-case letters, digits and hyphens, 40 at most"),
        summary=_text(document, "summary", None, ""),
        program=_text(document, "program", _PROGRAM, "<family>.<program>, as mnist.ddp"),
        args=_args(document, matrix),
        program_args=_program_args(document, matrix),
        scaling=_choice(document, "scaling", SCALINGS),
        matrix=matrix,
        skip=_skips(document, matrix),
        baseline=_cells(document, matrix, "baseline") if "baseline" in values else {},
        measure=_text(document, "measure", _MEASURE, "a time in seconds, as train_seconds", "train_seconds"),
        repeat=_whole(document, "repeat", 3, _MOST_REPEATS),
        timeout_seconds=_timeout(document),
        published=read_published(document, matrix),
        path=path,
        root=root,
    )
    if experiment.name != path.stem:
        document.fail(f"the name '{experiment.name}' has to be that of the file, '{path.stem}'", "name")
    _check_programs(document, experiment)
    _check_cells_exist(document, experiment)
    return experiment


def _text(
    document: yamlfile.Document, key: str, pattern: re.Pattern[str] | None, meant: str, default: str | None = None
) -> str:
    value = document.values.get(key, default)
    if value is None:
        document.fail(f"'{key}' is missing")
    if not isinstance(value, str) or not value.strip():
        document.fail(f"'{key}' has to be text, not {value!r}", key)
    if pattern and not pattern.fullmatch(value):
        document.fail(f"{key} '{value}' has to be {meant}", key)
    return value


def _choice(document: yamlfile.Document, key: str, choices: tuple[str, ...]) -> str:
    value = document.values.get(key)
    if value is None:
        document.fail(f"'{key}' is missing: say {' or '.join(choices)}")
    if value not in choices:
        document.fail(f"{key} has to be {' or '.join(choices)}, not {value!r}", key)
    return str(value)


def _whole(document: yamlfile.Document, key: str, default: int, most: int) -> int:
    value = document.values.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        document.fail(f"'{key}' has to be a whole number from 1 to {most}, not {value!r}", key)
    return value


def _timeout(document: yamlfile.Document) -> float:
    value = document.values.get("timeout_seconds", 1800)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        document.fail(f"'timeout_seconds' has to be a number of seconds above 0, not {value!r}", "timeout_seconds")
    return float(value)


def _mapping(document: yamlfile.Document, key: str) -> dict[str, Any]:
    value = document.values.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        document.fail(f"'{key}' has to be a mapping of names to values, not {value!r}", key)
    return value


def _args(document: yamlfile.Document, matrix: dict[str, list[Any]]) -> dict[str, Any]:
    args = _mapping(document, "args")
    for key, value in args.items():
        _check_arg(document, key, value, "args", key)
        if key in matrix:
            document.fail(f"'{key}' stands in args and in the matrix; keep one of them", "args", key)
    return dict(args)


def _program_args(document: yamlfile.Document, matrix: dict[str, list[Any]]) -> dict[str, dict[str, Any]]:
    """Read the args that only one program of the matrix is given, on top of `args`."""
    by_program = _mapping(document, "program_args")
    for name, args in by_program.items():
        if name not in matrix.get("program", []):
            known = did_you_mean(name, matrix.get("program", []))
            document.fail(f"'{name}' is no program of the matrix{known}", "program_args", name)
        if not isinstance(args, dict):
            document.fail(f"'{name}' has to be a mapping of args to values, not {args!r}", "program_args", name)
        for key, value in args.items():
            _check_arg(document, key, value, "program_args", name, key)
            if key in matrix:
                document.fail(f"'{key}' stands here and in the matrix; keep one of them", "program_args", name, key)
    return by_program


def _check_arg(document: yamlfile.Document, key: str, value: object, *path: str | int) -> None:
    if not _ARG.fullmatch(key):
        document.fail(f"arg '{key}' has to be a word of letters, digits and underscores", *path)
    if key in RESERVED:
        document.fail(RESERVED[key], *path)
    if value is not None and not isinstance(value, str | int | float):
        document.fail(f"arg '{key}' has to be a number, a text, true or false, not {value!r}", *path)
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        document.fail(f"arg '{key}': a whole number has 63 bits at most; quote it to pass it on as text", *path)


def _matrix(document: yamlfile.Document) -> dict[str, list[Any]]:
    matrix = _mapping(document, "matrix")
    if "layout" not in matrix:
        document.fail("'matrix' needs the axis 'layout', as layout: [1x1, 1x2]", "matrix")
    axes: dict[str, list[Any]] = {}
    for axis, values in matrix.items():
        if not isinstance(values, list) or not values:
            document.fail(f"axis '{axis}' has to be a list of values, not {values!r}", "matrix", axis)
        axes[axis] = []
        for index, value in enumerate(values):
            place = ("matrix", axis, index)
            _check_arg(document, axis, value, *place)
            point = canonical_layout(document, value, *place) if axis == "layout" else value
            if any(point == other and type(point) is type(other) for other in axes[axis]):
                document.fail(f"{axis} {point} stands twice", *place)
            axes[axis].append(point)
    return axes


def _skips(document: yamlfile.Document, matrix: dict[str, list[Any]]) -> tuple[Skip, ...]:
    skips = document.values.get("skip") or []
    if not isinstance(skips, list):
        document.fail(f"'skip' has to be a list, not {skips!r}", "skip")
    result = []
    for index, entry in enumerate(skips):
        if not isinstance(entry, dict):
            document.fail("a skip is a mapping of axes to values, with 'why'", "skip", index)
        why, when = entry.get("why"), entry.get("when")
        if not isinstance(why, str) or not why.strip():
            document.fail("every skip says why: add 'why: ...'", "skip", index)
        if when is not None and when not in DEVICES:
            document.fail(f"'when' has to be {' or '.join(DEVICES)}, not {when!r}", "skip", index, "when")
        match = {key: value for key, value in entry.items() if key not in ("why", "when")}
        check_axes(document, matrix, match, "skip", index)
        result.append(Skip(match, when, why.strip()))
    return tuple(result)


def _cells(document: yamlfile.Document, matrix: dict[str, list[Any]], key: str) -> dict[str, Any]:
    row = dict(_mapping(document, key))
    check_axes(document, matrix, row, key)
    return row


def _check_cells_exist(document: yamlfile.Document, experiment: Experiment) -> None:
    """Refuse a published row or a baseline that belongs to no cell which is ever run."""
    cells = [cell for cell, skip in experiment.cells() if skip is None]
    if not cells:
        document.fail("every cell is skipped: nothing is left to run", "skip")
    rows = experiment.published["rows"] if experiment.published else []
    for index, row in enumerate(rows):
        named = {key: row[key] for key in row if key in experiment.matrix}
        if not any(agrees(cell, named) for cell in cells):
            document.fail(f"the row matches no cell: {named} is skipped", "published", "rows", index)
    if experiment.baseline and not any(agrees(cell, experiment.baseline) for cell in cells):
        document.fail("the baseline is skipped: it matches no cell", "baseline")


def _check_programs(document: yamlfile.Document, experiment: Experiment) -> None:
    """Find every program and ask it whether it takes the args; a matrix of programs has to share them."""
    for index, name in enumerate(experiment.matrix.get("program", [])):
        if not isinstance(name, str) or not _PROGRAM.fullmatch(name):
            document.fail(f"program {name!r} has to be <family>.<program>, as mnist.ddp", "matrix", "program", index)
    in_matrix = experiment.matrix.get("program", [])
    for name in dict.fromkeys([experiment.program, *in_matrix]):
        place = ("matrix", "program", in_matrix.index(name)) if name in in_matrix else ("program",)
        try:
            found = programs.find(experiment.root, name)
        except RequestError as error:
            document.fail(str(error), *place)
        own = experiment.program_args.get(name, {})
        axes = {axis: values for axis, values in experiment.matrix.items() if axis not in ("layout", "program")}
        passed: list[tuple[str, Any, tuple[str | int, ...]]] = [
            *((key, value, ("args", key)) for key, value in experiment.args.items()),
            *((key, value, ("program_args", name, key)) for key, value in own.items()),
            *((key, value, ("matrix", key, index)) for key in axes for index, value in enumerate(axes[key])),
        ]
        for key, value, where in passed:
            try:
                found.check(key, value)
            except RequestError as error:
                document.fail(str(error), *where)
