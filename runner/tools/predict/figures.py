"""Figures that may be wrong, and by how much."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runner.report.statistics import DEFAULT, t_quantile

_NORMAL = statistics.NormalDist().inv_cdf((1 + DEFAULT.level) / 2)
FURTHEST = 100.0
"""Of a logarithm; nothing is drawn beyond it, so that floats can carry it."""


@dataclass(frozen=True)
class Figure:
    """A figure above zero, and the standard deviation of its natural logarithm by which it may be wrong."""

    value: float
    spread: float = 0.0

    def drawn(self, normal: Callable[[], float]) -> float:
        """Draw what the figure may really be, by a standard normal number."""
        return self.value * math.exp(max(-FURTHEST, min(FURTHEST, self.spread * normal())))


def between(low: float, high: float) -> Figure:
    """Return a figure of which only two ends are known: the middle of them on the log scale, as likely as any other."""
    return Figure(math.sqrt(low * high), abs(math.log(high / low)) / math.sqrt(12))


def of_sample(values: Sequence[float], least: float, alone: float) -> Figure:
    """Return the geometric mean of measured values and by how much it may be wrong.

    Args:
        values: at least one, above zero.
        least: the spread that is assumed at least, because repeats right after each other are more alike than others.
        alone: the spread of a value that was measured once.
    """
    logs = [math.log(value) for value in values]
    mean = math.exp(statistics.fmean(logs))
    if len(logs) == 1:
        return Figure(mean, alone)
    # Student's t says how much wider few repeats make the interval; as a spread, that of a normal as wide.
    error = statistics.stdev(logs) / math.sqrt(len(logs)) * t_quantile(len(logs) - 1) / _NORMAL
    return Figure(mean, max(error, least))
