"""The figures that a document published, as a definition lists them under `published:`."""

import re
from typing import Any

from runner.core.values import LARGEST
from runner.core.yaml_reader import Document
from runner.definitions.axes import LAYOUT, ROW, check_axes
from runner.definitions.keys import LONGEST_LINE, Node

MOST_ROWS = 200
_NO_TEXT = {"any": f"'{{key}}' has to be text of {LONGEST_LINE:,} characters at most, not {{shown}}"}
_TEXT = {"type": "string", "maxLength": LONGEST_LINE, "says": _NO_TEXT}
_NUMBER = {"type": "number", "minimum": 1e-18, "maximum": LARGEST, "meant": "a number above 0"}
_SHARE = {**_NUMBER, "maximum": 1, "says": {"maximum": "'{key}' is a share from 0 to 1, not {shown}"}}
_NO_CURVE = {"any": "'{key}' has to be a list of numbers, one for each epoch"}
_POINT = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST, "says": _NO_CURVE}
_CURVE = {"type": "array", "minItems": 1, "items": _POINT, "says": _NO_CURVE}
_TEXTS = {"hardware": _TEXT, "where": _TEXT, "note": _TEXT}
_NUMBERS = dict.fromkeys(("total_seconds", "train_seconds", "round_trip_seconds", "speedup"), _NUMBER)
_NUMBERS |= {"accuracy": _SHARE, "best_accuracy": _SHARE}
NUMBERS = tuple(_NUMBERS)
_FIGURES = {**_NUMBERS, "train_loss": _CURVE, "val_loss": _CURVE}
PUBLISHED: Node = {
    "description": "What a document printed, shown beside what is measured.",
    "type": ["object", "null"],
    "required": ["source", "rows"],
    "additionalProperties": False,
    "properties": {
        "source": {
            "description": "The document, by its name in docs/references.md, and its section.",
            "type": "string",
            "maxLength": LONGEST_LINE,
            "says": {"any": "'published' needs a 'source': the document and its section"},
        },
        "rows": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_ROWS,
            "items": {
                **ROW,
                "anyOf": [{"required": ["hardware", key]} for key in _FIGURES],
                "properties": {"layout": LAYOUT, **_TEXTS, **_FIGURES},
                "says": {"type": "a published row is a mapping of axes and figures"},
            },
            "says": {
                "any": "'published' needs 'rows': a list of mappings",
                "maxItems": "{count:,} published rows; {maxItems} are the most",
            },
        },
    },
    "says": {"type": "'published' has to be a mapping with 'source' and 'rows'"},
}


def read_published(document: Document, matrix: dict[str, list[Any]]) -> dict[str, Any] | None:
    """Return `published`, which was checked, with its cells in canonical form; a row has a cell and a figure."""
    published = document.values.get("published")
    if published is None:
        return None
    rows = []
    for index, row in enumerate(published["rows"]):
        place = ("published", "rows", index)
        document.only_keys((*matrix, *_TEXTS, *_FIGURES), *place)
        if row.get("hardware") is None:
            document.fail("the row needs its 'hardware', for example 1x A100", *place)
        cell = {key: value for key, value in row.items() if key in matrix}
        check_axes(document, matrix, cell, *place)
        if not row.keys() & _FIGURES.keys():
            document.fail(f"the row has no figure: give it {', '.join(_FIGURES)}", *place)
        rows.append({**row, **cell})
    return {"source": published["source"], "rows": rows}


def figures(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the published rows of a resolved definition, each with the speed-up that its own times give.

    `computed_speedup` is over the published one-process row of the same hardware and axes; a row on several kinds of
    device, or without such a baseline, has none.
    """
    rows = (definition.get("published") or {}).get("rows", [])
    axes = set(definition.get("matrix", {})) - {"layout"}
    return [_with_speedup(row, rows, axes) for row in rows]


def _with_speedup(row: dict[str, Any], rows: list[dict[str, Any]], axes: set[str]) -> dict[str, Any]:
    count, model = _devices(row["hardware"])
    result = {**row, "devices": count}
    result.pop("computed_speedup", None)  # a record may come from a stranger
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
