"""Figures as the words of a table's cells, and as a page writes them."""

import math
from collections.abc import Callable

from runner.report.statistics import Estimate

_FOUR_DIGITS = 1_000
"""From here on, whole seconds say enough."""
_LONG = 1e7
_MOST_DECIMALS = 4


def estimate(found: Estimate | None, least: int = 0) -> str:
    """Write a value and the ends of its interval with at least so many decimals, for example `1.68 [1.41, 2.01]`."""
    if found is None:
        return ""
    digits = max(least, _digits(found.value))
    ends = [end for end in (found.low, found.high) if end is not None]
    while digits < _MOST_DECIMALS and any(end != 1 and round(end, digits) == 1 for end in ends):
        digits += 1  # 1.00 is no end of an interval that excludes 1
    return _with_ends(found, lambda value: _fixed(value, digits))


def interval(found: Estimate) -> str:
    """Write a value and how far its interval goes, for example `15.92 ±21%`, in half the room of `estimate`.

    An interval on the log scale goes further up than down, and the percentage is that of the side upwards. One that
    goes beyond twice the value is written as the factor on both sides, for example `15.92 x/÷ 3.1`.
    """
    value = _fixed(found.value, _digits(found.value))
    if found.low is None or found.high is None:
        return value
    factor = max(found.high / found.value, 1.0)
    if factor > 2:
        return f"{value} x/÷ {factor:.2g}"
    return f"{value} ±{share(factor - 1)}"


def seconds(value: float) -> str:
    """Write the seconds of one run."""
    return _fixed(value, decimals(value))


def share(value: float) -> str:
    """Write a part of the whole as a percentage of two digits."""
    return f"{value:.0%}" if value >= 0.1 else f"{value:.1%}"


def decimals(seconds: float) -> int:
    """Return how many decimals say enough: two, or three significant ones of less than a tenth of a second."""
    return 2 - math.floor(math.log10(seconds)) if 0 < seconds < 0.1 else 2


def processes(number: int) -> str:
    """Write a number of processes as a sentence does."""
    return "one process" if number == 1 else f"{number} processes"


def page_seconds(value: float) -> str:
    """Write seconds with three or four digits."""
    return f"{value:,.{_digits(value)}f}"


def page_times(found: Estimate | None) -> str:
    """Write typical seconds and their interval, for example `1,204 [1,190, 1,219]`."""
    return "no complete run" if found is None else _with_ends(found, page_seconds)


def page_ratio(value: float) -> str:
    """Write a ratio; one that no plot could hold in few digits is written with an exponent."""
    return f"{value:.2f}" if 0.005 <= value < 10_000 or value == 0 else f"{value:.1e}"  # digits


def page_estimate(found: Estimate | None) -> str:
    """Write a ratio and its interval, if it has one."""
    return "" if found is None else _with_ends(found, page_ratio)


def _with_ends(found: Estimate, write: Callable[[float], str]) -> str:
    if found.low is None or found.high is None:
        return write(found.value)
    return f"{write(found.value)} [{write(found.low)}, {write(found.high)}]"


def _digits(value: float) -> int:
    return decimals(value) if value < _FOUR_DIGITS else 0


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if value < _LONG else f"{value:.2e}"
