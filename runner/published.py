"""The figures that a document published, as a definition lists them under `published:`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from runner.axes import check_axes
from runner.errors import did_you_mean

if TYPE_CHECKING:
    from runner.yamlfile import Document

NUMBERS = ("total_seconds", "train_seconds", "round_trip_seconds", "speedup", "accuracy", "best_accuracy")
CURVES = ("train_loss", "val_loss")
TEXTS = ("hardware", "where", "note")


def read_published(document: Document, matrix: dict[str, list[Any]]) -> dict[str, Any] | None:
    """Check `published: {source, rows}` and return it with its cells in canonical form."""
    published = document.values.get("published")
    if published is None:
        return None
    if not isinstance(published, dict):
        document.fail("'published' has to be a mapping with 'source' and 'rows'", "published")
    document.only_keys(("source", "rows"), "published")
    if not isinstance(published.get("source"), str):
        document.fail("'published' needs a 'source': the document and its section", "published")
    rows = published.get("rows")
    if not isinstance(rows, list) or not rows:
        document.fail("'published' needs 'rows': a list of mappings", "published", "rows")
    checked = [_row(document, matrix, row, "published", "rows", index) for index, row in enumerate(rows)]
    return {"source": published["source"], "rows": checked}


def _row(document: Document, matrix: dict[str, list[Any]], row: object, *place: str | int) -> dict[str, Any]:
    """Check a row: it names the cell it belongs to, its hardware and its figures."""
    if not isinstance(row, dict):
        document.fail("a published row is a mapping of axes and figures", *place)
    cell = {key: value for key, value in row.items() if key in matrix}
    for key, value in row.items():
        if key not in matrix:
            _check_figure(document, key, value, (*matrix, *TEXTS, *NUMBERS, *CURVES), *place, key)
    check_axes(document, matrix, cell, *place)
    if not any(key in row for key in (*NUMBERS, *CURVES)):
        document.fail(f"the row has no figure: give it {', '.join((*NUMBERS, *CURVES))}", *place)
    if not isinstance(row.get("hardware"), str):
        document.fail("the row needs its 'hardware', as 1x A100", *place)
    return {**row, **cell}


def _check_figure(document: Document, key: str, value: object, known: tuple[str, ...], *path: str | int) -> None:
    if key in TEXTS:
        if not isinstance(value, str):
            document.fail(f"'{key}' has to be text, not {value!r}", *path)
    elif key in NUMBERS:
        if not _is_number(value) or value <= 0:  # type: ignore[operator]
            document.fail(f"'{key}' has to be a number above 0, not {value!r}", *path)
        if key.endswith("accuracy") and value > 1:  # type: ignore[operator]
            document.fail(f"'{key}' is a share from 0 to 1, not {value!r}", *path)
    elif key in CURVES:
        if not isinstance(value, list) or not value or not all(_is_number(point) for point in value):
            document.fail(f"'{key}' has to be a list of numbers, one for each epoch", *path)
    else:
        document.fail(f"unknown key '{key}'{did_you_mean(key, known)}", *path)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def figures(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the published rows of a resolved definition, each with the speed-up that its own times give.

    `computed_speedup` is over the published one-process row of the same hardware and axes; a row on unlike devices,
    or without such a baseline, has none. `rounding` is what the printed speed-up may differ by for its digits.
    """
    rows = (definition.get("published") or {}).get("rows", [])
    axes = set(definition.get("matrix", {})) - {"layout"}
    return [_with_speedup(row, rows, axes) for row in rows]


def _with_speedup(row: dict[str, Any], rows: list[dict[str, Any]], axes: set[str]) -> dict[str, Any]:
    count, model = _devices(row["hardware"])
    result = {**row, "devices": count, "rounding": 0.5 * 10 ** -_decimals(row.get("speedup"))}
    for base in rows:
        same = _devices(base["hardware"]) == (1, model) and all(base.get(axis) == row.get(axis) for axis in axes)
        for measure in ("total_seconds", "train_seconds"):
            if count and same and base.get(measure) and row.get(measure):
                return {**result, "computed_speedup": base[measure] / row[measure]}
    return result


def _devices(hardware: str) -> tuple[int, str]:
    """Read `2x A100` as (2, "A100"); what names several kinds of device has no count."""
    found = re.fullmatch(r"(\d+)\s*x\s*([^+]+)", hardware.strip())
    return (int(found[1]), found[2].strip()) if found else (0, hardware)


def _decimals(number: float | None) -> int:
    return len(f"{number:g}".partition(".")[2]) if number else 2
