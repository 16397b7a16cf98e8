"""The formulas of the table, and how many repeats an interval or a difference takes.

Times of repeats are compared on the log scale: run times are positive and their noise is multiplicative, and there a
ratio becomes a difference, to which Welch's t interval applies (B. L. Welch, Biometrika 34, 1947). At three repeats a
side its simulated coverage is the nominal one; a bootstrap or mean +- sigma falls far short.
"""

import math
import os
import statistics
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

LEVEL = 0.95
CONFIDENCE = "95%"
SIGNIFICANT = 1 - LEVEL
"""The p-value below which a difference is shown."""
POWER = 0.9
FEWEST = 3
"""Fewer repeats show nothing, whatever their spread."""
MOST = 10_000
"""Nobody is asked for more repeats: another machine or a longer run is the way out."""
_LARGEST_EXPONENT = 700.0
_EQUAL = 1e-12
"""Logarithms closer than this are those of one time, up to the rounding of floats."""


@dataclass(frozen=True)
class Estimate:
    """A value and its interval; low and high are None where there are too few repeats for one."""

    value: float
    low: float | None = None
    high: float | None = None

    def over(self, divisor: float) -> "Estimate":
        """Divide value and interval by a positive number."""
        return Estimate(self.value / divisor, self.low and self.low / divisor, self.high and self.high / divisor)

    def inverse(self) -> "Estimate":
        """Return one over the value, with its interval."""
        return Estimate(1 / self.value, self.high and 1 / self.high, self.low and 1 / self.low)


@dataclass(frozen=True)
class Difference:
    """A mean or a difference of means of natural logarithms, and the spread that it was measured with.

    `samples` has the variance (None where no two values differ) and the size of each independent sample: two samples
    for two sides that are compared as a whole, one for the differences within pairs of runs. The order of the runs
    multiplies the standard error by `widened`.
    """

    log: float
    samples: tuple[tuple[float | None, int], ...]
    widened: float = 1.0

    @property
    def error(self) -> float | None:
        """The standard error of `log`; None where a sample has no two values that differ."""
        shares = self._shares()
        return self.widened * math.sqrt(sum(shares)) if shares else None

    @property
    def freedom(self) -> float:
        """The degrees of freedom by Welch and Satterthwaite; of one sample, n - 1. Only where there is an error."""
        shares, counts = self._shares(), (count for _, count in self.samples)
        total = sum(shares)
        return 1 / sum((share / total) ** 2 / (count - 1) for share, count in zip(shares, counts, strict=True))

    def half_width(self, tests: int = 1) -> float | None:
        """Return half of the interval on the log scale; it holds together with those of all `tests`."""
        return self.error and self.error * t_quantile(self.freedom, 1 - SIGNIFICANT / tests)

    @property
    def p(self) -> float | None:
        """The two-sided p-value of "no difference"; None where the error is not known."""
        return self.error and min(1.0, 2 * float(_special().stdtr(self.freedom, -abs(self.log) / self.error)))

    def estimate(self) -> Estimate:
        """Return the ratio exp(log) and its interval."""
        half = self.half_width()
        ends = () if half is None else (self.log - half, self.log + half)
        # Where no float can carry an end of the interval, it is the largest that can be printed.
        return Estimate(*(math.exp(min(log, _LARGEST_EXPONENT)) for log in (self.log, *ends)))

    def with_repeats(self, counts: Sequence[int]) -> "Difference":
        """Return what the same spread would give with other numbers of values in the samples."""
        samples = zip(self.samples, counts, strict=True)
        return replace(self, samples=tuple((variance, count) for (variance, _), count in samples))

    def _shares(self) -> list[float]:
        known = [variance / count for variance, count in self.samples if variance is not None]
        return known if len(known) == len(self.samples) else []


def typical(seconds: list[float]) -> Estimate:
    """Return the geometric mean of times (seconds) and its t interval on the log scale."""
    if len(seconds) == 1:
        return Estimate(seconds[0])
    return _mean([math.log(value) for value in seconds]).estimate()


def welch(base: list[float], other: list[float]) -> Difference:
    """Return mean ln base - mean ln other, of two sides whose values have nothing to do with one another.

    Its estimate is the ratio of the two, a speed-up where both are times of the same work. The interval is Welch's t on
    logs: d +- t sqrt(v1/n1 + v2/n2), degrees of freedom by Welch-Satterthwaite.
    """
    logs = [[math.log(value) for value in side] for side in (base, other)]
    samples = tuple((_variance(values), len(values)) for values in logs)
    return Difference(_center(logs[0]) - _center(logs[1]), samples)


def paired(base: list[float], other: list[float]) -> Difference:
    """Return the mean of ln base - ln other over pairs: what both of a pair have in common cancels."""
    return _mean([math.log(first) - math.log(second) for first, second in zip(base, other, strict=True)])


def vary(values: Sequence[float]) -> bool:
    """Return whether values differ by more than floats make of equal ones; equal times were rounded."""
    return max(values) / min(values) - 1 > _EQUAL


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values adjusted so that all that stay below 1 - level hold together at this level of confidence.

    The largest of (m - k + 1) p(k) so far, in the order of size (S. Holm, Scand. J. Statist. 6, 1979).
    """
    adjusted = [1.0] * len(values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted


def karp_flatt(speedup: float, processes: int) -> float | None:
    """Return the serial fraction that a speed-up shows, (1/S - 1/p) / (1 - 1/p) (Karp and Flatt, CACM 33, 1990)."""
    if processes < 2:  # one process has no serial fraction
        return None
    return (1 / speedup - 1 / processes) / (1 - 1 / processes)


def accuracies_agree(first: float, second: float, samples: int) -> bool:
    """Return whether two accuracies differ by no more than the choice of so many test samples explains.

    The two-proportion z interval with the pooled share; one correct answer more or less is always granted.
    """
    quantile = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)
    pooled = (first + second) / 2
    error = math.sqrt(pooled * (1 - pooled) * 2 / samples)
    return abs(first - second) <= max(quantile * error, 1 / samples) + 1e-12


def more_for_width(difference: Difference, share: float, tests: int = 1) -> int | None:
    """Return how many more repeats of each side narrow the interval among some tests to +- `share`, for example 0.05.

    None if the spread is not known, or if it would take more than `MOST`.
    """

    def narrow(more: int) -> bool:
        width = difference.with_repeats([count + more for _, count in difference.samples]).half_width(tests)
        return width is not None and width <= math.log1p(share)

    return _fewest(narrow, 0)


def repeats_to_find(difference: Difference, effect: float, power: float = POWER, tests: int = 1) -> int | None:
    """Return how many repeats of each side find a difference of `effect` on the log scale with this power, among tests.

    The spread is itself an estimate, so this is the expected power over all spreads that could have led to the observed
    one: sqrt(n / v) effect has to reach the quantile of a noncentral t distribution with the degrees of freedom of the
    spread (Julious and Owen, Pharmaceut. Statist. 5, 2006). For a known spread it is the usual (t + z)^2 v / d^2.

    None if the spread is not known, or if it would take more than `MOST`.
    """

    def found(repeats: int) -> bool:
        planned = difference.with_repeats([repeats] * len(difference.samples))
        width = planned.half_width(tests)
        if planned.error is None or width is None:
            return False
        quantile = _special().nctdtrit(difference.freedom, width / planned.error, power)
        return effect / planned.error >= float(quantile)

    return _fewest(found, FEWEST)


def _fewest(enough: Callable[[int], bool], first: int) -> int | None:
    """Return the smallest number from `first` on that is enough, as all larger ones are; None beyond `MOST`."""
    low = high = first
    while not enough(high):
        if high == MOST:
            return None
        low, high = high, min(MOST, 2 * high + 1)
    return low + bisect_left(range(low, high), True, key=enough)


@lru_cache(maxsize=4096)
def t_quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the two-sided quantile of Student's t for a real number of degrees of freedom."""
    return float(_special().stdtrit(freedom, (1 + level) / 2))


@cache
def _special() -> Any:
    """Import SciPy's functions when the first interval is needed: that takes longer than most commands.

    Without the threads that NumPy's OpenBLAS starts at its import, and that nothing here uses, it takes a third less.
    """
    threads = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        import scipy.special
    finally:
        del os.environ["OPENBLAS_NUM_THREADS"]
        if threads is not None:
            os.environ["OPENBLAS_NUM_THREADS"] = threads
    return scipy.special


def _mean(logs: list[float]) -> Difference:
    return Difference(_center(logs), ((_variance(logs), len(logs)),))


def _center(values: list[float]) -> float:
    """Return the mean; that of equal values is their value to the last bit, however many there are."""
    first = values[0]
    return first + statistics.fmean([value - first for value in values])


def _variance(values: list[float]) -> float | None:
    """Return the sample variance; None of values that are all the same, as of one alone: they say nothing of a spread.

    The standard library's exact one takes twenty times as long.
    """
    if max(values) - min(values) < _EQUAL:
        return None
    mean = _center(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
