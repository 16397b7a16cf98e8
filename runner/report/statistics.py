"""Compute confidence intervals, tests, and the number of repeats that a result needs.

Times are compared on the log scale, because run times are positive and their noise is multiplicative. On this scale a
ratio is a difference, so Welch's t interval applies (B. L. Welch, Biometrika 34, 1947). In simulations with three
repeats a side, this interval had its nominal coverage. The coverage of a bootstrap or of mean +- sigma was far too low.
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
POWER = 0.9
FEWEST = 3
"""Repeats of each side that a claim needs, however small the spread."""
MOST = 10_000
"""The most repeats that are proposed. If more are needed, use another machine or longer runs."""
_LARGEST_EXPONENT = 700.0
_EQUAL = 1e-12
"""Logarithms closer than this differ only by the rounding of floats."""


@dataclass(frozen=True)
class Estimate:
    """A value and its interval. `low` and `high` are None if there are too few repeats."""

    value: float
    low: float | None = None
    high: float | None = None

    def over(self, divisor: float) -> "Estimate":
        """Divide the value and its interval by a positive number."""
        return Estimate(self.value / divisor, self.low and self.low / divisor, self.high and self.high / divisor)

    def inverse(self) -> "Estimate":
        """Return the reciprocal of the value and its interval."""
        return Estimate(1 / self.value, self.high and 1 / self.high, self.low and 1 / self.low)


@dataclass(frozen=True)
class Difference:
    """A mean of natural logarithms, or a difference of two such means, and its spread.

    `samples` has the variance and the size of each sample. Two independent sides give two samples. Pairs of runs give
    one sample of differences. The variance is None if all values are equal. `widened` is the factor by which the order
    of the runs increases the standard error.
    """

    log: float
    samples: tuple[tuple[float | None, int], ...]
    widened: float = 1.0

    @property
    def error(self) -> float | None:
        """The standard error of `log`; None if all values of a sample are equal."""
        shares = self._shares()
        return self.widened * math.sqrt(sum(shares)) if shares else None

    @property
    def freedom(self) -> float:
        """The degrees of freedom by Welch and Satterthwaite, or n - 1 for one sample. `error` must not be None."""
        shares, counts = self._shares(), (count for _, count in self.samples)
        total = sum(shares)
        return 1 / sum((share / total) ** 2 / (count - 1) for share, count in zip(shares, counts, strict=True))

    def half_width(self, tests: int = 1) -> float | None:
        """Return half the width of the interval on the log scale, corrected for a number of simultaneous tests."""
        return self.error and self.error * t_quantile(self.freedom, 1 - SIGNIFICANT / tests)

    @property
    def p(self) -> float | None:
        """The two-sided p-value of the hypothesis "no difference"; None if the error is unknown."""
        return self.error and min(1.0, 2 * float(_special().stdtr(self.freedom, -abs(self.log) / self.error)))

    def estimate(self) -> Estimate:
        """Return the ratio exp(log) and its interval."""
        half = self.half_width()
        ends = () if half is None else (self.log - half, self.log + half)
        # Keep the ends of very wide intervals within the range of floats.
        return Estimate(*(math.exp(min(log, _LARGEST_EXPONENT)) for log in (self.log, *ends)))

    def with_repeats(self, counts: Sequence[int]) -> "Difference":
        """Return the difference as if the samples had other sizes but the same variances."""
        samples = zip(self.samples, counts, strict=True)
        return replace(self, samples=tuple((variance, count) for (variance, _), count in samples))

    def _shares(self) -> list[float]:
        known = [variance / count for variance, count in self.samples if variance is not None]
        return known if len(known) == len(self.samples) else []


def typical(seconds: list[float]) -> Estimate:
    """Return the geometric mean of times and its t interval on the log scale."""
    if len(seconds) == 1:
        return Estimate(seconds[0])
    return _mean([math.log(value) for value in seconds]).estimate()


def welch(base: list[float], other: list[float]) -> Difference:
    """Return mean ln base - mean ln other for independent samples.

    The estimate is the ratio base / other. This is the speed-up if both samples are times of the same work. The
    interval is Welch's t interval of the logarithms: d +- t sqrt(v1/n1 + v2/n2). The degrees of freedom follow Welch
    and Satterthwaite.
    """
    logs = [[math.log(value) for value in side] for side in (base, other)]
    samples = tuple((_variance(values), len(values)) for values in logs)
    return Difference(_center(logs[0]) - _center(logs[1]), samples)


def paired(base: list[float], other: list[float]) -> Difference:
    """Return the mean of ln base - ln other over pairs of runs. Effects common to both runs of a pair cancel."""
    return _mean([math.log(first) - math.log(second) for first, second in zip(base, other, strict=True)])


def vary(values: Sequence[float]) -> bool:
    """Return whether values differ by more than the rounding of floats."""
    return max(values) / min(values) - 1 > _EQUAL


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple tests by Holm's method (S. Holm, Scand. J. Statist. 6, 1979)."""
    adjusted = [1.0] * len(values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted


def karp_flatt(speedup: float, processes: int) -> float | None:
    """Return the serial fraction (1/S - 1/p) / (1 - 1/p) (Karp and Flatt, CACM 33, 1990); None for one process."""
    if processes < 2:
        return None
    return (1 / speedup - 1 / processes) / (1 - 1 / processes)


def accuracies_agree(first: float, second: float, samples: int) -> bool:
    """Return whether two accuracies agree within the sampling error of a test set of `samples`.

    The two-proportion z interval with the pooled share is used. A difference of one correct answer is always allowed.
    """
    quantile = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)
    pooled = (first + second) / 2
    error = math.sqrt(pooled * (1 - pooled) * 2 / samples)
    return abs(first - second) <= max(quantile * error, 1 / samples) + 1e-12


def more_for_width(difference: Difference, share: float, tests: int = 1) -> int | None:
    """Return how many more repeats of each side narrow the interval to +- `share`, for example 0.05.

    The interval is corrected for `tests` simultaneous tests. Returns None if the spread is unknown, or if more than
    `MOST` repeats are needed.
    """

    def narrow(more: int) -> bool:
        width = difference.with_repeats([count + more for _, count in difference.samples]).half_width(tests)
        return width is not None and width <= math.log1p(share)

    return _fewest(narrow, 0)


def repeats_to_find(difference: Difference, effect: float, power: float = POWER, tests: int = 1) -> int | None:
    """Return how many repeats of each side find a difference of `effect` on the log scale with this power.

    The test is corrected for `tests` simultaneous tests. The observed spread is an estimate, so the power is the mean
    over all true spreads that may have led to it. For this, sqrt(n / v) effect must reach the quantile of a noncentral
    t distribution with the spread's degrees of freedom (Julious and Owen, Pharmaceut. Statist. 5, 2006). Returns None
    if the spread is unknown, or if more than `MOST` repeats are needed.
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
    low = high = first
    while not enough(high):
        if high == MOST:
            return None
        low, high = high, min(MOST, 2 * high + 1)
    return low + bisect_left(range(low, high), True, key=enough)


@lru_cache(maxsize=4096)
def t_quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the two-sided quantile of Student's t. Degrees of freedom may be fractional."""
    return float(_special().stdtrit(freedom, (1 + level) / 2))


@cache
def _special() -> Any:
    """Import SciPy's functions on first use, because the import takes longer than most commands.

    The threads of NumPy's OpenBLAS are switched off, so that the import takes a third less time.
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
    first = values[0]
    return first + statistics.fmean([value - first for value in values])


def _variance(values: list[float]) -> float | None:
    """Return the sample variance, 20 times as fast as `statistics.variance`. Returns None if all values are equal."""
    if max(values) - min(values) < _EQUAL:
        return None
    mean = _center(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
