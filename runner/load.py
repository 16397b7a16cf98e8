"""The `load` events of each node -> what the record keeps of them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runner.events import Event
    from runner.schema import RankFacts

MOST_POINTS = 300
"""Points kept of a node; those of a longer run are means of equal stretches. Every look is in the raw file."""
MOST = 1e18
"""A larger figure is not one of a machine."""
_MEASURED = re.compile(r"\w+_(percent|bytes|bytes_per_second)")


def of_nodes(ranks: list[RankFacts], by_rank: dict[int, list[Event]]) -> list[dict[str, Any]]:
    """Return for each node that told: `looks`, `mean` and `most` of each figure while it trained, and its `points`.

    Points count their `seconds` from the node's first event. A run without epochs is taken whole.
    """
    events: dict[int, list[Event]] = defaultdict(list)
    for facts in ranks:
        events[facts.node] += by_rank.get(facts.rank, [])
    found = [_node(node, events[node]) for node in sorted(events)]
    return [one for one in found if one]


def mean(nodes: list[dict[str, Any]], name: str) -> float | None:
    """Average the means of the figures with this name over nodes and, as `gpu0_percent` is one, over devices."""
    wanted = re.compile(name)
    values = [value for node in nodes for key, value in node.get("mean", {}).items() if wanted.fullmatch(key)]
    return sum(values) / len(values) if values else None


def _node(node: int, events: list[Event]) -> dict[str, Any] | None:
    looks = sorted((event for event in events if event.key == "load"), key=lambda event: event.time_ms)
    if not looks:
        return None
    first = min(event.time_ms for event in events)
    starts = [event.time_ms for event in events if event.key == "epoch_start"]
    stops = [event.time_ms for event in events if event.key == "epoch_stop"]
    training = looks
    if starts and stops:
        # A look tells of the second before it.
        training = [one for one in looks if min(starts) < one.time_ms <= max(stops) + 1000] or looks
    names = sorted({name for one in looks for name in one.metadata if _MEASURED.fullmatch(name)})
    during = {name: values for name in names if (values := _values(training, name))}
    stretch = -(-len(looks) // MOST_POINTS)
    parts = [looks[start : start + stretch] for start in range(0, len(looks), stretch)]
    return {
        "node": node,
        "looks": len(looks),
        "mean": {name: _round(sum(values) / len(values)) for name, values in during.items()},
        "most": {name: max(values) for name, values in during.items()},
        "points": {
            "seconds": [round((part[-1].time_ms - first) / 1000, 1) for part in parts],
            **{name: [_average(_values(part, name)) for part in parts] for name in names},
        },
    }


def _values(looks: list[Event], name: str) -> list[float]:
    values = (one.metadata.get(name) for one in looks)
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return [value for value in numbers if math.isfinite(value) and abs(value) < MOST]


def _average(values: list[float]) -> float | None:
    return _round(sum(values) / len(values)) if values else None


def _round(value: float) -> float:
    return round(value, 1) if value < 1000 else round(value)  # noqa: PLR2004 - bytes have no tenths
