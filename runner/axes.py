"""The axes of a matrix: which values they have, and which cells a row names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.errors import did_you_mean
from runner.layout import Layout

if TYPE_CHECKING:
    from runner.yamlfile import Document


def agrees(cell: dict[str, Any], named: dict[str, Any]) -> bool:
    """Tell whether a cell has every value that is named."""
    return all(cell[key] == value for key, value in named.items())


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
        if row[key] not in matrix[key]:
            document.fail(f"{key} {row[key]!r} matches no cell{did_you_mean(row[key], matrix[key])}", *path, key)
