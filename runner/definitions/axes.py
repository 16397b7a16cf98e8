"""The axes of a matrix: which values they have, and which cells a row names."""

from __future__ import annotations

import math
from typing import Any

from runner.core.errors import did_you_mean
from runner.core.layout import PATTERN, Layout
from runner.core.text import shown
from runner.core.yaml_reader import Document
from runner.definitions.args import check_arg, names_schema, read_mapping, value_schema

MOST_CELLS = 10_000
MOST_AXES = 20
_NAN = object()


def read_matrix(document: Document) -> dict[str, list[Any]]:
    """Read `matrix`: lists of values, that of `layout` in canonical form."""
    matrix = read_mapping(document, "matrix")
    if "layout" not in matrix:
        document.fail("'matrix' needs the axis 'layout', for example layout: [1x1, 1x2]", "matrix")
    if len(matrix) > MOST_AXES:
        document.fail(f"{len(matrix):,} axes; {MOST_AXES} are the most", "matrix")
    axes: dict[str, list[Any]] = {}
    for axis, values in matrix.items():
        if not isinstance(values, list) or not values:
            document.fail(f"axis '{axis}' has to be a list of values, not {shown(values)}", "matrix", axis)
        axes[axis] = _read_values(document, axis, values)
    if wrong := too_many(axes):
        document.fail(wrong, "matrix")
    return axes


def too_many(matrix: dict[str, list[Any]]) -> str | None:
    """Return what is wrong with the number of cells, if anything; none is built for it."""
    cells = math.prod(map(len, matrix.values()))
    if cells <= MOST_CELLS:
        return None
    sizes = " x ".join(f"{len(values):,}" for values in matrix.values() if len(values) > 1)
    return f"the matrix has {cells:,} cells ({sizes}); {MOST_CELLS:,} are the most: split the experiment"


def _read_values(document: Document, axis: str, values: list[Any]) -> list[Any]:
    points: list[Any] = []
    seen = set()
    for index, value in enumerate(values):
        place = ("matrix", axis, index)
        check_arg(document, axis, value, *place)
        point = canonical_layout(document, value, *place) if axis == "layout" else value
        if (type(point), identity(point)) in seen:
            document.fail(f"{axis} {point} stands twice", *place)
        seen.add((type(point), identity(point)))
        points.append(point)
    return points


def identity(value: object) -> tuple[bool, object]:
    """Return what makes a value of an axis the same as another: 1 is 1.0, true is not 1, and NaN is NaN."""
    return isinstance(value, bool), _NAN if value != value else value  # noqa: PLR0124 - NaN alone differs from itself


def values_of(row: dict[str, Any], axes: tuple[str, ...]) -> tuple[object, ...]:
    """Return the identities of a row's values on some axes, to look it up by them."""
    return tuple(identity(row[axis]) for axis in axes)


def agrees(cell: dict[str, Any], named: dict[str, Any]) -> bool:
    """Tell whether a cell has every value that is named."""
    return all(identity(cell[key]) == identity(value) for key, value in named.items())


def canonical_layout(document: Document, value: object, *path: str | int) -> str:
    """Return a layout in its canonical form, or complain at its place."""
    try:
        return str(Layout.parse(value))
    except ValueError as error:
        document.fail(str(error), *path)


def check_axes(document: Document, matrix: dict[str, list[Any]], row: dict[str, Any], *path: str | int) -> None:
    """Refuse a row with a name that is no axis, or a value that the axis does not have; layouts become canonical."""
    for key, value in row.items():
        if key not in matrix:
            document.fail(f"'{key}' is no axis of the matrix{did_you_mean(key, matrix)}", *path, key)
        if key == "layout":
            row[key] = canonical_layout(document, value, *path, key)
        found = identity(row[key])
        if not any(identity(point) == found for point in matrix[key]):
            document.fail(f"{key} {shown(row[key])} matches no cell{did_you_mean(row[key], matrix[key])}", *path, key)


def layout_schema() -> dict[str, Any]:
    """Return the JSON Schema of a layout."""
    return {
        "description": "nodes x processes, or the processes of heterogeneous nodes: 1x2, 2+3.",
        "type": "string",
        "pattern": f"^(?:{PATTERN})$",
    }


def matrix_schema(program: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of `matrix`; `program` is that of a program's name."""
    return {
        "description": "The axes: every combination of their values is a cell. All but layout become --key value.",
        "type": "object",
        "required": ["layout"],
        "maxProperties": MOST_AXES,
        "propertyNames": names_schema(),
        "properties": {
            "layout": {"type": "array", "minItems": 1, "items": layout_schema()},
            "program": {"type": "array", "minItems": 1, "items": program},
        },
        "additionalProperties": {"type": "array", "minItems": 1, "maxItems": MOST_CELLS, "items": value_schema()},
    }


def row_schema() -> dict[str, Any]:
    """Return the JSON Schema of a mapping that names cells: axes with one value each."""
    return {"type": "object", "properties": {"layout": layout_schema()}, "additionalProperties": value_schema()}
