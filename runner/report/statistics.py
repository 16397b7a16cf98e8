"""The formulas of the table, nothing else.

Times of repeats are compared on the log scale: run times are positive and their noise is multiplicative, and there a
ratio becomes a difference, to which Welch's t interval applies (B. L. Welch, Biometrika 34, 1947). At three repeats a
side its simulated coverage is that which it names; a bootstrap or mean +- sigma falls far short.
"""

import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

_LARGEST_EXPONENT = 700.0
_EQUAL = 1e-12
"""Logarithms that are nearer to one another are those of one time, and what floats make of it."""


@dataclass(frozen=True)
class Confidence:
    """How sure the intervals and the claims of a comparison are."""

    level: float = 0.95

    @property
    def significant(self) -> float:
        """The p-value below which a difference is shown."""
        return 1 - self.level

    def __str__(self) -> str:
        return f"{100 * self.level:g}%"


DEFAULT = Confidence()


@dataclass(frozen=True)
class Estimate:
    """A value and its interval; low and high are None where there are too few repeats for one."""

    value: float
    low: float | None = None
    high: float | None = None

    def over(self, divisor: float) -> "Estimate":
        """Divide value and interval by a positive number."""
        return Estimate(
            self.value / divisor,
            None if self.low is None else self.low / divisor,
            None if self.high is None else self.high / divisor,
        )

    def inverse(self) -> "Estimate":
        """Return one over the value, with its interval."""
        return Estimate(1 / self.value, self.high and 1 / self.high, self.low and 1 / self.low)


@dataclass(frozen=True)
class Difference:
    """A mean or a difference of means of natural logarithms, and the spread that it was measured with.

    Of each independent sample `samples` has the variance (None where no two values differ) and how many they are: two
    of them for two sides that are compared as a whole, one for the differences within pairs of runs. `widened` is by
    what the order of the runs multiplies the standard error.
    """

    log: float
    samples: tuple[tuple[float | None, int], ...]
    confidence: Confidence = DEFAULT
    widened: float = 1.0

    @property
    def error(self) -> float | None:
        """The standard error of `log`; None where a sample has no two values that differ."""
        shares = self._shares()
        return self.widened * math.sqrt(sum(shares)) if shares else None

    @property
    def freedom(self) -> float | None:
        """The degrees of freedom by Welch and Satterthwaite; of one sample, n - 1. None where there is no error."""
        shares = self._shares()
        if not shares or not (total := sum(shares)):
            return None
        counts = [count for _, count in self.samples]
        return 1 / sum((share / total) ** 2 / (count - 1) for share, count in zip(shares, counts, strict=True))

    @property
    def half_width(self) -> float | None:
        """Half of the interval on the log scale; None where there is no error known."""
        return self.half_width_among(1)

    def half_width_among(self, tests: int) -> float | None:
        """Return half of the interval that holds together with those of all tests, even if this one is the clearest."""
        error, freedom = self.error, self.freedom
        return error and freedom and error * t_quantile(freedom, 1 - self.confidence.significant / tests)

    @property
    def p(self) -> float | None:
        """The two-sided p-value of "no difference"; None where there is no error known."""
        error, freedom = self.error, self.freedom
        if not error or freedom is None:
            return None
        return min(1.0, 2 * float(_special().stdtr(freedom, -abs(self.log) / error)))

    def estimate(self) -> Estimate:
        """Return the ratio exp(log) and its interval."""
        half = self.half_width
        if half is None:
            return Estimate(_exp(self.log))
        return Estimate(_exp(self.log), _exp(self.log - half), _exp(self.log + half))

    def with_repeats(self, counts: Sequence[int]) -> "Difference":
        """Return what the same spread would give with other numbers of values in the samples."""
        samples = zip(self.samples, counts, strict=True)
        return replace(self, samples=tuple((variance, count) for (variance, _), count in samples))

    def _shares(self) -> list[float]:
        known = [variance / count for variance, count in self.samples if variance is not None]
        return known if len(known) == len(self.samples) else []


def typical(seconds: list[float], confidence: Confidence = DEFAULT) -> Estimate:
    """Return the geometric mean of times (seconds) and its t interval on the log scale."""
    if len(seconds) == 1:
        return Estimate(seconds[0])
    return _mean([math.log(value) for value in seconds], confidence).estimate()


def welch(base: list[float], other: list[float], confidence: Confidence = DEFAULT) -> Difference:
    """Return mean ln base - mean ln other, of two sides whose values have nothing to do with one another.

    Its estimate is the ratio of the two, a speed-up where both are times of the same work. The interval is Welch's t on
    logs: d +- t sqrt(v1/n1 + v2/n2), degrees of freedom by Welch-Satterthwaite.
    """
    logs = [[math.log(value) for value in side] for side in (base, other)]
    samples = tuple((_variance(values), len(values)) for values in logs)
    return Difference(_center(logs[0]) - _center(logs[1]), samples, confidence)


def paired(base: list[float], other: list[float], confidence: Confidence = DEFAULT) -> Difference:
    """Return the mean of ln base - ln other over pairs: what both of a pair have in common cancels."""
    return _mean([math.log(first) - math.log(second) for first, second in zip(base, other, strict=True)], confidence)


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


def accuracies_agree(
    first: float, first_samples: int, second: float, second_samples: int, confidence: Confidence = DEFAULT
) -> bool:
    """Return whether two accuracies differ by no more than the choice of test samples explains.

    The two-proportion z interval with the pooled share; one correct answer more or less is always granted.
    """
    quantile = statistics.NormalDist().inv_cdf((1 + confidence.level) / 2)
    pooled = (first * first_samples + second * second_samples) / (first_samples + second_samples)
    error = math.sqrt(max(pooled * (1 - pooled), 0) * (1 / first_samples + 1 / second_samples))
    one_sample = 1 / min(first_samples, second_samples)
    return abs(first - second) <= max(quantile * error, one_sample) + 1e-12


@lru_cache(maxsize=4096)
def t_quantile(freedom: float, level: float = DEFAULT.level) -> float:
    """Return the two-sided quantile of Student's t for a real number of degrees of freedom."""
    return float(_special().stdtrit(freedom, (1 + level) / 2))


@lru_cache(maxsize=4096)
def noncentral_t_quantile(freedom: float, shift: float, share: float) -> float:
    """Return the value below which a share of the noncentral t distribution lies."""
    return float(_special().nctdtrit(freedom, shift, share))


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


def _mean(logs: list[float], confidence: Confidence) -> Difference:
    return Difference(_center(logs), ((_variance(logs), len(logs)),), confidence)


def _center(values: list[float]) -> float:
    """Return the mean; that of equal values is their value to the last bit, however many there are."""
    first = values[0]
    return first + statistics.fmean([value - first for value in values])


def _exp(exponent: float) -> float:
    """Return e to a power; where no float can carry it, the end of an interval is the largest that can be printed."""
    return math.exp(exponent if exponent < _LARGEST_EXPONENT else _LARGEST_EXPONENT)  # noqa: FURB136 - called often


def _variance(values: list[float]) -> float | None:
    """Return the sample variance; None of values that are all the same, as of one alone: they say nothing of a spread.

    The standard library's exact one takes twenty times as long.
    """
    if max(values) - min(values) < _EQUAL:
        return None
    mean = _center(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def decimals(seconds: float) -> int:
    """Return how many decimals say enough: two, or three significant ones of less than a tenth of a second."""
    return 2 - math.floor(math.log10(seconds)) if 0 < seconds < 0.1 else 2
