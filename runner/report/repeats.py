"""How many repeats it takes, by the spread that was seen: for an interval, and to find a difference."""

import math
from bisect import bisect_left
from collections.abc import Callable

from runner.report.statistics import Difference, noncentral_t_quantile

POWER = 0.9
FEWEST = 3
"""Fewer repeats show nothing, whatever their spread."""
MOST = 10_000
"""Repeats beyond which nobody is asked for more: another machine, or a longer run, is the way out."""


def more_for_width(difference: Difference, share: float, tests: int = 1) -> int | None:
    """Return how many more repeats of each side narrow the interval among some tests to +- `share`, for example 0.05.

    None where the spread is not known yet, or where it would take more than `MOST`.
    """
    target = math.log1p(share)

    def narrow(more: int) -> bool:
        width = difference.with_repeats([count + more for _, count in difference.samples]).half_width_among(tests)
        return width is None or width <= target

    return None if difference.error is None else _fewest(narrow, 0)


def repeats_to_find(difference: Difference, effect: float, power: float = POWER, tests: int = 1) -> int | None:
    """Return how many repeats of each side find a difference of `effect` on the log scale with this power, among tests.

    The spread is itself an estimate, so the power is that which is to be expected over all spreads which could have
    led to the one that was seen: sqrt(n / v) effect has to reach the quantile of a noncentral t distribution
    with the degrees of freedom of the spread (Julious and Owen, Pharmaceut. Statist. 5, 2006). With the true spread
    known it is the usual (t + z)^2 v / d^2.

    None where the spread is not known yet, or where it would take more than `MOST`.
    """
    if difference.error is None:
        return None
    freedom = difference.freedom
    if freedom is None:
        return FEWEST

    def found(repeats: int) -> bool:
        planned = difference.with_repeats([repeats] * len(difference.samples))
        width, error = planned.half_width_among(tests), planned.error
        return not width or not error or effect / error >= noncentral_t_quantile(freedom, width / error, power)

    return _fewest(found, FEWEST)


def _fewest(enough: Callable[[int], bool], first: int) -> int | None:
    """Return the smallest number from `first` on that is enough, as all larger ones are; None beyond `MOST`."""
    low = high = first
    while not enough(high):
        if high == MOST:
            return None
        low, high = high, min(MOST, 2 * high + 1)
    return low + bisect_left(range(low, high), True, key=enough)
