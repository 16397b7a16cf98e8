"""Cells that are left out, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runner.core.text import shown
from runner.core.yaml_reader import Document
from runner.definitions.axes import check_axes, row_schema, values_of
from runner.definitions.fields import LONGEST_LINE

DEVICES = ("cpu", "cuda")
MOST_SKIPS = 100


@dataclass(frozen=True)
class Skip:
    """Cells that are left out: those that agree with `match`, on the device `when` (any if None), and why."""

    match: dict[str, Any]
    when: str | None
    why: str

    def plain(self) -> dict[str, Any]:
        """Return it as the definition has it."""
        return {**self.match, **({"when": self.when} if self.when else {}), "why": self.why}


def finder(skips: tuple[Skip, ...], device: str | None) -> Callable[[dict[str, Any]], Skip | None]:
    """Return a function that finds the first skip which leaves a cell out on a device.

    A cell is looked up by the axes that skips name, so that many skips and many cells take no longer than both.
    """
    by_axes: dict[tuple[str, ...], dict[tuple[object, ...], int]] = {}
    for number, skip in enumerate(skips):
        if skip.when in (None, device):
            axes = tuple(skip.match)
            by_axes.setdefault(axes, {}).setdefault(values_of(skip.match, axes), number)

    def find(cell: dict[str, Any]) -> Skip | None:
        found = (numbers.get(values_of(cell, axes), len(skips)) for axes, numbers in by_axes.items())
        first = min(found, default=len(skips))
        return skips[first] if first < len(skips) else None

    return find


def read_skips(document: Document, matrix: dict[str, list[Any]]) -> tuple[Skip, ...]:
    """Read `skip`: a list of mappings, each with its `why`."""
    skips = document.values.get("skip")
    if skips is None:
        return ()
    if not isinstance(skips, list):
        document.fail(f"'skip' has to be a list, not {shown(skips)}", "skip")
    if len(skips) > MOST_SKIPS:
        document.fail(f"'skip' has {len(skips):,} entries; {MOST_SKIPS} are the most", "skip")
    return tuple(_read(document, matrix, entry, "skip", index) for index, entry in enumerate(skips))


def _read(document: Document, matrix: dict[str, list[Any]], entry: object, *place: str | int) -> Skip:
    if not isinstance(entry, dict):
        document.fail("a skip is a mapping of axes to values, with 'why'", *place)
    why, when = entry.get("why"), entry.get("when")
    if not isinstance(why, str) or not why.strip():
        document.fail("every skip says why: add 'why: ...'", *place)
    if len(why) > LONGEST_LINE:
        document.fail(f"'why' has {len(why):,} characters; {LONGEST_LINE:,} are the most", *place, "why")
    if when is not None and when not in DEVICES:
        document.fail(f"'when' has to be {' or '.join(DEVICES)}, not {shown(when)}", *place, "when")
    match = {key: value for key, value in entry.items() if key not in ("why", "when")}
    check_axes(document, matrix, match, *place)
    return Skip(match, when, why.strip())


def skips_schema() -> dict[str, Any]:
    """Return the JSON Schema of `skip`."""
    row = row_schema()
    text = {"type": "string", "pattern": r"\S", "maxLength": LONGEST_LINE}
    own = {
        "why": {"description": "Shown in plans and summaries.", **text},
        "when": {"description": "Only on this device.", "enum": [*DEVICES, None]},
    }
    return {
        "description": "Cells that are left out: those with these values of the axes.",
        "type": ["array", "null"],
        "maxItems": MOST_SKIPS,
        "items": {**row, "required": ["why"], "properties": {**row["properties"], **own}},
    }
