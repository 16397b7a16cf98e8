"""Cells that are left out, and why."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runner.core.yaml_reader import Document
from runner.definitions.axes import LAYOUT, ROW, check_axes, values_of
from runner.definitions.keys import LONGEST_LINE, Node, text

DEVICES = ("cpu", "cuda")
MOST_SKIPS = 100
_NO_WHY = "every skip says why: add 'why: ...'"
SKIP: Node = {
    "description": "Cells that are left out: those with these values of the axes.",
    "type": ["array", "null"],
    "maxItems": MOST_SKIPS,
    "items": {
        **ROW,
        "required": ["why"],
        "properties": {
            "layout": LAYOUT,
            "why": text(
                "Shown in plans and summaries.", most=LONGEST_LINE, says={"required": _NO_WHY, "type": _NO_WHY}
            ),
            "when": {
                "description": "Only on this device.",
                "enum": [*DEVICES, None],
                "says": {"enum": f"'when' has to be {' or '.join(DEVICES)}, not {{shown}}"},
            },
        },
        "says": {"type": "a skip is a mapping of axes to values, with 'why'"},
    },
    "meant": "a list",
}


@dataclass(frozen=True)
class Skip:
    """Cells that are left out: those that agree with `match`, on the device `when` (any if None), and why."""

    match: dict[str, Any]
    when: str | None
    why: str

    def plain(self) -> dict[str, Any]:
        """Return it as the definition has it."""
        return {**self.match, **({"when": self.when} if self.when else {}), "why": self.why}


def read_skips(document: Document, matrix: dict[str, list[Any]]) -> tuple[Skip, ...]:
    """Return the skips of a definition that was checked; each has to match a cell."""
    skips = []
    for index, entry in enumerate(document.values.get("skip") or []):
        match = {key: value for key, value in entry.items() if key not in ("why", "when")}
        check_axes(document, matrix, match, "skip", index)
        skips.append(Skip(match, entry.get("when"), entry["why"].strip()))
    return tuple(skips)


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
