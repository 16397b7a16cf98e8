"""The `load` events of a node -> its load in the record."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from runner.core.values import number
from runner.records.events import Event
from runner.records.schema import Load

MOST_POINTS = 300
"""Points kept of a node; those of a longer run are means of equal stretches. Every look is in the raw file."""
MOST_LOOKS = 20_000
"""Looks that are held of all nodes, five hours of one; of a longer run, neighbours are merged."""
FEWEST_LOOKS = 10
FIGURES = {
    "cpu_percent": "cpu_percent",
    "memory_bytes": "memory_bytes",
    "gpu_percent": r"gpu\d+_percent",
    "gpu_memory_bytes": r"gpu\d+_memory_bytes",
}
"""What tables and plots show of a load, and under which names nodes report it: of GPUs, each has a name of its own."""
_MEASURED = re.compile(r"\w{1,60}_(percent|bytes|bytes_per_second)")


class _Look(NamedTuple):
    """One look or several neighbours: when the last was taken, and of each figure its sum, count and largest."""

    time_ms: float
    figures: dict[str, tuple[float, int, float]]


class NodeLoad:
    """The load of one node of a run, one of so many."""

    def __init__(self, nodes: int = 1) -> None:
        self.looks = 0
        self._most = max(FEWEST_LOOKS, MOST_LOOKS // nodes)
        self._held: list[_Look] = []
        self._first = math.inf
        self._training = (math.inf, -math.inf)

    def mark(self, event: Event) -> None:
        """Note the time of an event: the run's first one, and begin and end of the training."""
        self._first = min(self._first, event.time_ms)
        began, ended = self._training
        if event.key == "epoch_start":
            self._training = min(began, event.time_ms), ended
        elif event.key == "epoch_stop":
            self._training = began, max(ended, event.time_ms)

    def take(self, event: Event) -> None:
        """Add one look."""
        figures: dict[str, tuple[float, int, float]] = {}
        for name, told in event.metadata.items():
            if (value := number(told)) is not None and _MEASURED.fullmatch(name):
                figures[name] = (value, 1, value)
        self.looks += 1
        self._first = min(self._first, event.time_ms)
        self._held.append(_Look(event.time_ms, figures))
        if len(self._held) > self._most:
            pairs = zip(self._held[::2], self._held[1::2], strict=False)
            last = self._held[-1:] if len(self._held) % 2 else []
            self._held = [*map(_merged, pairs), *last]

    def summary(self, node: int) -> Load | None:
        """Return the load of a node, if it has reported any.

        Points count their `seconds` from the node's first event. A run without epochs is taken whole.
        """
        if not self._held:
            return None
        held = sorted(self._held, key=lambda look: look.time_ms)
        began, ended = self._training
        # A look reports on the second before it.
        training = [look for look in held if began < look.time_ms <= ended + 1000] or held
        during = _merged(training)
        stretch = -(-len(held) // MOST_POINTS)
        parts = [_merged(held[start : start + stretch]) for start in range(0, len(held), stretch)]
        names = sorted({name for part in parts for name in part.figures})
        points = {name: [_mean(part, name) for part in parts] for name in names}
        return Load(
            node=node,
            looks=self.looks,
            mean={name: mean for name in names if (mean := _mean(during, name)) is not None},
            most={name: during.figures[name][2] for name in names if name in during.figures},
            points={"seconds": [round((part.time_ms - self._first) / 1000, 1) for part in parts], **points},
        )


def mean(nodes: list[Load], name: str) -> float | None:
    """Average the means of the figures with this name over nodes and, as `gpu0_percent` is one, over devices."""
    values = [value for node in nodes for key, value in node.mean.items() if re.fullmatch(name, key)]
    return sum(values) / len(values) if values else None


def _merged(looks: Sequence[_Look]) -> _Look:
    figures: dict[str, tuple[float, int, float]] = {}
    for look in looks:
        for name, (total, count, most) in look.figures.items():
            before = figures.get(name, (0.0, 0, -math.inf))
            figures[name] = (before[0] + total, before[1] + count, max(before[2], most))
    return _Look(looks[-1].time_ms, figures)


def _mean(look: _Look, name: str) -> float | None:
    if name not in look.figures:
        return None
    total, count, _ = look.figures[name]
    return round(total / count, 1 if total / count < 1000 else None)  # of bytes
