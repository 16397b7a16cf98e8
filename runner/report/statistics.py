"""The formulas of the table, nothing else.

Times of repeats are compared on the log scale: run times are positive and their noise is multiplicative, and there a
ratio becomes a difference, to which Welch's t interval applies (B. L. Welch, Biometrika 34, 1947). At three repeats a
side its simulated coverage is that which it names; a bootstrap or mean +- sigma falls far short.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import lru_cache

CONFIDENCE = 0.95
_NORMAL_QUANTILE = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_SERIES_END = 1e-14
_MOST_TERMS = 2000
_TINY = 1e-300
_CONVERGED = 1e-9
_MOST_STEPS = 50
_LITTLE = 0.1
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class Estimate:
    """A value and its 95% interval; low and high are None where there are too few repeats for one."""

    value: float
    low: float | None = None
    high: float | None = None

    def over(self, divisor: float) -> Estimate:
        """Divide value and interval by a positive number."""
        return Estimate(
            self.value / divisor,
            None if self.low is None else self.low / divisor,
            None if self.high is None else self.high / divisor,
        )


def typical(seconds: list[float]) -> Estimate:
    """Return the geometric mean of times (seconds) and its t interval on the log scale."""
    logs = [math.log(value) for value in seconds]
    mean = statistics.fmean(logs)
    if len(logs) == 1:
        return Estimate(seconds[0])
    half = t_quantile(len(logs) - 1) * math.sqrt(_variance(logs)) / math.sqrt(len(logs))
    return Estimate(_exp(mean), _exp(mean - half), _exp(mean + half))


def ratio(base: list[float], other: list[float]) -> Estimate:
    """Return exp(mean ln base - mean ln other), a speed-up where both are times of the same work.

    The interval is Welch's t on logs: d +- t sqrt(v1/n1 + v2/n2), degrees of freedom by Welch-Satterthwaite.
    """
    logs = [math.log(value) for value in base], [math.log(value) for value in other]
    difference = statistics.fmean(logs[0]) - statistics.fmean(logs[1])
    if min(map(len, logs)) < 2:  # noqa: PLR2004 - a variance needs two values
        return Estimate(_exp(difference))
    shares = [_variance(values) / len(values) for values in logs]
    error = sum(shares)
    if error == 0:
        return Estimate(_exp(difference), _exp(difference), _exp(difference))
    freedom = error**2 / sum(share**2 / (len(values) - 1) for share, values in zip(shares, logs, strict=True))
    half = t_quantile(freedom) * math.sqrt(error)
    return Estimate(_exp(difference), _exp(difference - half), _exp(difference + half))


def karp_flatt(speedup: float, processes: int) -> float | None:
    """Return the serial fraction that a speed-up shows, (1/S - 1/p) / (1 - 1/p) (Karp and Flatt, CACM 33, 1990)."""
    if processes < 2:  # noqa: PLR2004 - one process has no serial fraction
        return None
    return (1 / speedup - 1 / processes) / (1 - 1 / processes)


def accuracies_agree(first: float, first_samples: int, second: float, second_samples: int) -> bool:
    """Whether two accuracies differ by no more than the choice of test samples explains.

    The two-proportion z interval at 95% with the pooled share; one correct answer more or less is always granted.
    """
    pooled = (first * first_samples + second * second_samples) / (first_samples + second_samples)
    error = math.sqrt(max(pooled * (1 - pooled), 0) * (1 / first_samples + 1 / second_samples))
    one_sample = 1 / min(first_samples, second_samples)
    return abs(first - second) <= max(_NORMAL_QUANTILE * error, one_sample) + 1e-12


def _exp(exponent: float) -> float:
    """Return e to a power; where no float can carry it, the end of an interval is the largest that can be printed."""
    return math.exp(exponent if exponent < _LARGEST_EXPONENT else _LARGEST_EXPONENT)  # noqa: FURB136 - called often


def _variance(values: list[float]) -> float:
    """Return the sample variance; the standard library's exact one takes twenty times as long."""
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


@lru_cache(maxsize=4096)
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t for a real number of degrees of freedom.

    Solved by Newton's rule for ln P over ln t, which is nearly straight, with P(|T| > t) = I_x(f/2, 1/2) and
    x = f / (f + t^2) (Abramowitz and Stegun 26.5.27).
    """
    log_density = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    t = 2.0
    for _ in range(_MOST_STEPS):
        tails = _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)
        density = math.exp(log_density - (freedom + 1) / 2 * math.log1p(t * t / freedom))
        step = math.log(tails / (1 - confidence)) * tails / (2 * density * t)
        t *= math.exp(step)
        if abs(step) < _CONVERGED:
            break
    return t


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return I_x(a, b) by Lentz's continued fraction (Numerical Recipes 6.4; A&S 26.5.8)."""
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b))
    d = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    c, fraction = 1.0, d
    for m in range(1, _MOST_TERMS):
        for coefficient in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + coefficient * d)
            c = _away_from_zero(1 + coefficient / c)
            fraction *= d * c
        if abs(d * c - 1) < _SERIES_END:
            break
    return front * fraction / a


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def decimals(seconds: float) -> int:
    """Return how many decimals say enough: two, or three significant ones of less than a tenth of a second."""
    return 2 - math.floor(math.log10(seconds)) if 0 < seconds < _LITTLE else 2
