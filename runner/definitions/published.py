"""Read published figures from the key `published` of a definition."""

import re
from typing import Any


def figures(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the published rows of a resolved definition, with the speed-ups computed from their times.

    `computed_speedup` compares a row with the published row that has one device of the same kind, and the same axis
    values. The key is absent if there is no such row, or if the hardware is mixed.
    """
    rows = (definition.get("published") or {}).get("rows", [])
    axes = set(definition.get("matrix", {})) - {"layout"}
    return [_with_speedup(row, rows, axes) for row in rows]


def _with_speedup(row: dict[str, Any], rows: list[dict[str, Any]], axes: set[str]) -> dict[str, Any]:
    count, model = _devices(row["hardware"])
    result = {**row, "devices": count}
    result.pop("computed_speedup", None)  # an untrusted record may contain one
    for base in rows:
        same = _devices(base["hardware"]) == (1, model) and all(base.get(axis) == row.get(axis) for axis in axes)
        for measure in ("total_seconds", "train_seconds"):
            if count and same and base.get(measure) and row.get(measure):
                return {**result, "computed_speedup": base[measure] / row[measure]}
    return result


def _devices(hardware: str) -> tuple[int, str]:
    """Parse `2x A100` as (2, "A100"). The count is 0 if the text names several kinds of device."""
    found = re.fullmatch(r"(\d+)\s*x\s*([^+]+)", hardware.strip())
    return (int(found[1]), found[2].strip()) if found else (0, hardware)
