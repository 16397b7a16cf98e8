"""The figures that a document published, as a definition lists them under `published:`."""

from __future__ import annotations

import re
from typing import Any

from runner.core.errors import did_you_mean
from runner.core.text import shown
from runner.core.values import LARGEST, number
from runner.core.yaml_reader import Document
from runner.definitions.axes import check_axes, row_schema
from runner.definitions.fields import LONGEST_LINE

NUMBERS = ("total_seconds", "train_seconds", "round_trip_seconds", "speedup", "accuracy", "best_accuracy")
CURVES = ("train_loss", "val_loss")
TEXTS = ("hardware", "where", "note")
KEYS = ("source", "rows")
MOST_ROWS = 200
SMALLEST = 1e-18


def read_published(document: Document, matrix: dict[str, list[Any]]) -> dict[str, Any] | None:
    """Check `published: {source, rows}` and return it with its cells in canonical form."""
    published = document.values.get("published")
    if published is None:
        return None
    if not isinstance(published, dict):
        document.fail("'published' has to be a mapping with 'source' and 'rows'", "published")
    document.only_keys(KEYS, "published")
    source, rows = published.get("source"), published.get("rows")
    if not isinstance(source, str) or len(source) > LONGEST_LINE:
        document.fail("'published' needs a 'source': the document and its section", "published")
    if not isinstance(rows, list) or not rows:
        document.fail("'published' needs 'rows': a list of mappings", "published", "rows")
    if len(rows) > MOST_ROWS:
        document.fail(f"{len(rows):,} published rows; {MOST_ROWS} are the most", "published", "rows")
    checked = [_row(document, matrix, row, "published", "rows", index) for index, row in enumerate(rows)]
    return {"source": source, "rows": checked}


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
        document.fail("the row needs its 'hardware', for example 1x A100", *place)
    return {**row, **cell}


def _check_figure(document: Document, key: str, value: object, known: tuple[str, ...], *path: str | int) -> None:
    if key in TEXTS:
        if not isinstance(value, str) or len(value) > LONGEST_LINE:
            document.fail(f"'{key}' has to be text of {LONGEST_LINE:,} characters at most, not {shown(value)}", *path)
    elif key in NUMBERS:
        if number(value, SMALLEST) is None:
            document.fail(f"'{key}' has to be a number above 0, not {shown(value)}", *path)
        if number(value, SMALLEST, _most(key)) is None:
            document.fail(f"'{key}' is a share from 0 to 1, not {shown(value)}", *path)
    elif key in CURVES:
        if not isinstance(value, list) or not value or any(number(point) is None for point in value):
            document.fail(f"'{key}' has to be a list of numbers, one for each epoch", *path)
    else:
        document.fail(f"unknown key '{key}'{did_you_mean(key, known)}", *path)


def _most(key: str) -> float:
    return 1 if key.endswith("accuracy") else LARGEST


def published_schema() -> dict[str, Any]:
    """Return the JSON Schema of `published`."""
    row = row_schema()
    point = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
    figures: dict[str, Any] = {key: {"type": "string", "maxLength": LONGEST_LINE} for key in TEXTS}
    figures |= {key: {"type": "number", "minimum": SMALLEST, "maximum": _most(key)} for key in NUMBERS}
    figures |= {key: {"type": "array", "minItems": 1, "items": point} for key in CURVES}
    return {
        "description": "What a document printed, shown beside what is measured.",
        "type": ["object", "null"],
        "required": list(KEYS),
        "additionalProperties": False,
        "properties": {
            "source": {
                "description": "The document, by its name in docs/references.md, and its section.",
                "type": "string",
                "maxLength": LONGEST_LINE,
            },
            "rows": {
                "type": "array",
                "minItems": 1,
                "maxItems": MOST_ROWS,
                "items": {
                    **row,
                    "required": ["hardware"],
                    "anyOf": [{"required": [key]} for key in (*NUMBERS, *CURVES)],
                    "properties": {**row["properties"], **figures},
                },
            },
        },
    }


def figures(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the published rows of a resolved definition, each with the speed-up that its own times give.

    `computed_speedup` is over the published one-process row of the same hardware and axes; a row on several kinds of
    device, or without such a baseline, has none. `rounding` is what the printed speed-up may differ by for its digits.
    """
    rows = (definition.get("published") or {}).get("rows", [])
    axes = set(definition.get("matrix", {})) - {"layout"}
    return [_with_speedup(row, rows, axes) for row in rows]


def _with_speedup(row: dict[str, Any], rows: list[dict[str, Any]], axes: set[str]) -> dict[str, Any]:
    count, model = _devices(row["hardware"])
    result = {**_own(row), "devices": count, "rounding": 0.5 * 10 ** -_decimals(row.get("speedup"))}
    for base in rows:
        same = _devices(base["hardware"]) == (1, model) and all(base.get(axis) == row.get(axis) for axis in axes)
        for measure in ("total_seconds", "train_seconds"):
            if count and same and base.get(measure) and row.get(measure):
                return {**result, "computed_speedup": base[measure] / row[measure]}
    return result


def _own(row: dict[str, Any]) -> dict[str, Any]:
    """Leave out what only this module computes."""
    return {key: value for key, value in row.items() if key != "computed_speedup"}


def _devices(hardware: str) -> tuple[int, str]:
    """Read `2x A100` as (2, "A100"); what names several kinds of device has no count."""
    found = re.fullmatch(r"(\d+)\s*x\s*([^+]+)", hardware.strip())
    return (int(found[1]), found[2].strip()) if found else (0, hardware)


def _decimals(number: float | None) -> int:
    return len(f"{number:g}".partition(".")[2]) if number else 2
