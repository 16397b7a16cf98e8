"""Figures as the words of a table's cells."""

from __future__ import annotations

from runner.report.statistics import Estimate, decimals

_FOUR_DIGITS = 1_000
"""From here on, whole seconds say enough."""
_LONG = 1e7
_TWO_DIGITS = 0.1
_TWICE = 2.0


def estimate(one: Estimate | None) -> str:
    """Write a value and the ends of its interval, for example `1.68 [1.41, 2.01]`."""
    if one is None:
        return ""
    digits = _digits(one.value)
    if one.low is None or one.high is None:
        return _fixed(one.value, digits)
    return f"{_fixed(one.value, digits)} [{_fixed(one.low, digits)}, {_fixed(one.high, digits)}]"


def interval(one: Estimate | None) -> str:
    """Write a value and how far its interval goes, for example `15.92 ±21%`, in half the room of `estimate`.

    An interval on the log scale goes further up than down, and the percentage is that of the side upwards. One that
    goes beyond twice the value is written as the factor on both sides, for example `15.92 x/÷ 3.1`.
    """
    if one is None:
        return ""
    value = _fixed(one.value, _digits(one.value))
    if one.low is None or one.high is None:
        return value
    factor = max(one.high / one.value, 1.0)
    if factor > _TWICE:
        return f"{value} x/÷ {factor:.2g}"
    return f"{value} ±{share(factor - 1)}"


def seconds(value: float) -> str:
    """Write the seconds of one run."""
    return _fixed(value, decimals(value))


def share(value: float | None) -> str:
    """Write a part of the whole as a percentage of two digits."""
    if value is None:
        return ""
    return f"{value:.0%}" if value >= _TWO_DIGITS else f"{value:.1%}"


def processes(number: int) -> str:
    """Write a number of processes as a sentence does."""
    return "one process" if number == 1 else f"{number} processes"


def _digits(value: float) -> int:
    return decimals(value) if value < _FOUR_DIGITS else 0


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if value < _LONG else f"{value:.2e}"
