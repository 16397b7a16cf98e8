"""The `load` events of a node -> its load in the record."""

import math
import re
from operator import itemgetter

from runner.core.values import number
from runner.records.events import Event
from runner.records.schema import Load

LOAD_KEYS = {"load", "epoch_start", "epoch_stop"}
MOST_POINTS = 300
"""Points kept of a node; those of a longer run are means of equal stretches. Every look is in the raw file."""
FIGURES = {
    "cpu_percent": "cpu_percent",
    "memory_bytes": "memory_bytes",
    "gpu_percent": r"gpu\d+_percent",
    "gpu_memory_bytes": r"gpu\d+_memory_bytes",
}
"""The figures of tables and plots, with the names under which nodes report them."""
_MEASURED = re.compile(r"\w{1,60}_(percent|bytes|bytes_per_second)")


class NodeLoad:
    """The load of one node of a run; all looks are held, a day of one node takes some 50 MB."""

    def __init__(self) -> None:
        self._looks: list[tuple[float, dict[str, float]]] = []
        self._first = math.inf
        self._training = (math.inf, -math.inf)

    def take(self, event: Event) -> None:
        """Take one look, the begin and end of the training, and the time of the run's first event."""
        self._first = min(self._first, event.time_ms)
        began, ended = self._training
        if event.key == "load":
            told = ((name, number(value)) for name, value in event.metadata.items() if _MEASURED.fullmatch(name))
            self._looks.append((event.time_ms, {name: value for name, value in told if value is not None}))
        elif event.key == "epoch_start":
            self._training = min(began, event.time_ms), ended
        elif event.key == "epoch_stop":
            self._training = began, max(ended, event.time_ms)

    def summary(self, node: int) -> Load | None:
        """Return the load of a node, if it has reported any.

        Points count their `seconds` from the node's first event. A run without epochs is taken whole.
        """
        looks = sorted(self._looks, key=itemgetter(0))
        if not looks:
            return None
        began, ended = self._training
        # A look reports on the second before it.
        training = [look for look in looks if began < look[0] <= ended + 1000] or looks
        stretch = -(-len(looks) // MOST_POINTS)
        parts = [looks[start : start + stretch] for start in range(0, len(looks), stretch)]
        names = sorted({name for _, figures in looks for name in figures})
        during = {name: values for name in names if (values := _values(training, name))}
        points = {name: [_mean(_values(part, name)) for part in parts] for name in names}
        return Load(
            node=node,
            looks=len(looks),
            mean={name: found for name, values in during.items() if (found := _mean(values)) is not None},
            most={name: max(values) for name, values in during.items()},
            points={"seconds": [round((part[-1][0] - self._first) / 1000, 1) for part in parts], **points},
        )


def mean(nodes: list[Load], name: str) -> float | None:
    """Average the means of the figures with this name over nodes and, as `gpu0_percent` is one, over devices."""
    values = [value for node in nodes for key, value in node.mean.items() if re.fullmatch(name, key)]
    return sum(values) / len(values) if values else None


def _values(looks: list[tuple[float, dict[str, float]]], name: str) -> list[float]:
    return [figures[name] for _, figures in looks if name in figures]


def _mean(values: list[float]) -> float | None:
    if not values:
        return None
    found = sum(values) / len(values)
    return round(found, 1 if found < 1000 else None)  # of bytes
