"""The figures that a document published, as a definition lists them under `published:`."""

import re
from typing import Any


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
