"""The axes of a matrix: which values they have, and which cells a row names."""

import math
from typing import Any

from runner.core.errors import did_you_mean
from runner.core.layout import PATTERN, Layout
from runner.core.text import shown
from runner.core.yaml_reader import Document
from runner.definitions.args import NAMES, VALUE
from runner.definitions.keys import Node, text

MOST_CELLS = 10_000
MOST_AXES = 20
WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_NAN = object()


def canonical_layout(document: Document, _key: str, value: object, *place: str | int) -> str:
    """Return a layout in its canonical form, or complain at its place."""
    try:
        return str(Layout.parse(value))
    except ValueError as error:
        document.fail(str(error), *place)


def _axis(items: Node, says: Node | None = None, **more: Any) -> Node:
    wrong = "axis '{key}' has to be a list of values, not {shown}"
    says = {"type": wrong, "minItems": wrong, **(says or {})}
    return {"type": "array", "minItems": 1, "items": items, "says": says, **more}


PROGRAM = text(
    "<family>.<program>, a module below experiments/; or the path of a script, from the project's folder.",
    rf"{WORD}(\.{WORD})+|([^/\\\x00-\x1f]+/)*[^/\\\x00-\x1f]+\.py",
    "<family>.<program>, for example mnist.ddp, or the path of a script, for example path/to/train.py",
)
LAYOUT: Node = {
    "description": "nodes x processes, or the processes of heterogeneous nodes: 1x2, 2+3.",
    "type": "string",
    "pattern": f"^(?:{PATTERN})$",
    "check": canonical_layout,
}
ROW: Node = {
    "type": "object",
    "properties": {"layout": LAYOUT},
    "additionalProperties": {**VALUE, "check": lambda *_: None},
}
"""A mapping that names cells: axes with one value each. `check_axes` looks at its values."""
BASELINE: Node = {
    **ROW,
    "description": "The cell to compare with, if it is not the one with one process.",
    "type": ["object", "null"],
}
_NO_LAYOUT = {"required": "'matrix' needs the axis 'layout', for example layout: [1x1, 1x2]"}
MATRIX: Node = {
    "description": "The axes: every combination of their values is a cell. All but layout become --key value.",
    "type": "object",
    "required": ["layout"],
    "maxProperties": MOST_AXES,
    "propertyNames": NAMES,
    "properties": {
        "layout": _axis(LAYOUT, _NO_LAYOUT),
        "program": _axis({**PROGRAM, "says": {"any": "{key} {shown} has to be {form}"}}),
    },
    "additionalProperties": _axis(VALUE, maxItems=MOST_CELLS),
    "says": {**_NO_LAYOUT, "maxProperties": "{count:,} axes; {maxProperties} are the most"},
}


def read_matrix(document: Document) -> dict[str, list[Any]]:
    """Return the axes of a matrix that was checked, layouts in canonical form; refuse values that stand twice."""
    matrix = dict(document.values["matrix"])
    for axis, values in matrix.items():
        points: dict[object, Any] = {}
        for index, value in enumerate(values):
            point = str(Layout.parse(value)) if axis == "layout" else value
            same = (type(point), identity(point))
            if same in points:
                document.fail(f"{axis} {point} stands twice", "matrix", axis, index)
            points[same] = point
        matrix[axis] = list(points.values())
    if wrong := too_many(matrix):
        document.fail(wrong, "matrix")
    return matrix


def too_many(matrix: dict[str, list[Any]]) -> str | None:
    """Return what is wrong with the number of cells, if anything; none is built for it."""
    cells = math.prod(map(len, matrix.values()))
    if cells <= MOST_CELLS:
        return None
    sizes = " x ".join(f"{len(values):,}" for values in matrix.values() if len(values) > 1)
    return f"the matrix has {cells:,} cells ({sizes}); {MOST_CELLS:,} are the most: split the experiment"


def identity(value: object) -> tuple[bool, object]:
    """Return what makes a value of an axis the same as another: 1 is 1.0, true is not 1, and NaN is NaN."""
    return isinstance(value, bool), _NAN if value != value else value  # NaN alone differs from itself


def values_of(row: dict[str, Any], axes: tuple[str, ...]) -> tuple[object, ...]:
    """Return the identities of a row's values on some axes, to look it up by them."""
    return tuple(identity(row[axis]) for axis in axes)


def check_axes(document: Document, matrix: dict[str, list[Any]], row: dict[str, Any], *place: str | int) -> None:
    """Refuse a row with a name that is no axis, or a value that the axis does not have; layouts become canonical."""
    for key, value in row.items():
        if key not in matrix:
            document.fail(f"'{key}' is no axis of the matrix{did_you_mean(key, matrix)}", *place, key)
        if key == "layout":
            row[key] = canonical_layout(document, key, value, *place, key)
        found = identity(row[key])
        if not any(identity(point) == found for point in matrix[key]):
            document.fail(f"{key} {shown(row[key])} matches no cell{did_you_mean(row[key], matrix[key])}", *place, key)
