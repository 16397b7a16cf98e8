"""Intervals of numbers, and the grade of a printed number against what follows from others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from runner.tools.audit.quantities import Quantity

CONSISTENT, TRUNCATED, INCONSISTENT, FLIPS = "consistent", "truncated", "inconsistent", "flips"
_EXACT = 1e-9
_FLOAT32 = 1e-6
_LONG = 7
"""From so many digits on, a number may have been computed in single precision."""


@dataclass(frozen=True)
class Span:
    """All values that a computed number may have, given the rounding of what it was computed from."""

    low: float
    middle: float
    high: float
    cut: tuple[float, float] | None = None
    """Its ends if the last digits of the numbers that it follows from were cut off, not rounded."""

    @property
    def ends(self) -> tuple[float, float, float, float]:
        """The ends of the interval, and those with digits cut off."""
        return self.low, self.high, *(self.cut or (self.low, self.high))

    def times(self, factor: float) -> Span:
        """Return it times a positive number."""
        low, high, least, most = (end * factor for end in self.ends)
        return Span(low, self.middle * factor, high, (least, most))

    def plus(self, number: float) -> Span:
        """Return it plus a number."""
        low, high, least, most = (end + number for end in self.ends)
        return Span(low, self.middle + number, high, (least, most))

    def inverse(self) -> Span:
        """Return one divided by it."""
        low, high, least, most = (1 / end for end in self.ends)
        return Span(high, 1 / self.middle, low, (most, least))


def exact(value: float) -> Span:
    """Return the interval of a number that is known."""
    return Span(value, value, value)


ONE = exact(1.0)
Ratios = list["Span | None"]
"""Intervals of the rows of a column."""


def span(quantity: Quantity) -> Span | None:
    """Return the interval of a printed number that has to be positive; None if it is not, or has no digits left."""
    if quantity.value <= 0 or quantity.high > 1e30:
        return None
    low = quantity.low if quantity.low > 0 else quantity.value * 1e-3
    # A mean of ratios differs from the ratio of the means by the square of the relative deviation.
    wide = 1 + quantity.spread**2
    cut = quantity.value / wide, (quantity.value + quantity.step) * wide
    return Span(low / wide, quantity.value, quantity.high * wide, cut)


def ratio(above: Span | None, below: Span | None) -> Span | None:
    """Divide two intervals."""
    return None if above is None or below is None or below.low <= 0 else product(above, below.inverse())


def product(first: Span | None, second: Span | None) -> Span | None:
    """Multiply two intervals of positive numbers."""
    if first is None or second is None:
        return None
    low, high, least, most = (one * other for one, other in zip(first.ends, second.ends, strict=True))
    return Span(low, first.middle * second.middle, high, (least, most))


def scaled(ratios: Sequence[Span | None], factors: Sequence[float | None] | float) -> Ratios:
    """Return intervals times numbers, or times one number."""
    if isinstance(factors, float):
        return [span.times(factors) if span else None for span in ratios] if factors != 1.0 else list(ratios)
    return [span.times(factor) if span and factor else None for span, factor in zip(ratios, factors, strict=True)]


def divided(ratios: Sequence[Span | None], factors: Sequence[float | None]) -> Ratios:
    """Return intervals divided by numbers."""
    return scaled(ratios, [1 / factor if factor else None for factor in factors])


def inverse(ratios: Ratios) -> Ratios:
    """Return one divided by each."""
    return [span.inverse() if span else None for span in ratios]


def plus(ratios: Ratios, number: float) -> Ratios:
    """Return each plus a number."""
    return [span.plus(number) if span else None for span in ratios]


def negative(ratios: Ratios) -> Ratios:
    """Return each with the other sign."""
    return [span and Span(-span.high, -span.middle, -span.low, (-span.ends[3], -span.ends[2])) for span in ratios]


def difference(above: Quantity | None, below: Quantity | None) -> Span | None:
    """Subtract two printed numbers, in the unit that they are printed in; None if their rounding leaves it open."""
    if above is None or below is None or above.scale != below.scale:
        return None
    if above.step + below.step > abs(above.value - below.value) / 2:
        return None
    low, middle, high = above.low - below.high, above.value - below.value, above.high - below.low
    return Span(low / above.scale, middle / above.scale, high / above.scale)


def grade(printed: Quantity, computed: Span) -> str:
    """Grade a printed number by whether the interval of its rounding, or of its truncation, meets the computed one.

    It may also follow, rounded, from numbers whose last digits were cut off: 157.55 printed as 157.
    """
    slack = (_FLOAT32 if printed.digits >= _LONG else _EXACT) * max(abs(computed.low), abs(computed.high), 1e-300)
    low, high = computed.low - slack, computed.high + slack
    if printed.low <= high and low <= printed.high:
        return CONSISTENT
    # Truncated: the digits after the last printed one were cut off, towards zero.
    away = math.copysign(printed.step, printed.value)
    first, last = sorted((printed.value, printed.value + away))
    _, _, least, most = computed.ends
    if (first <= high and low < last) or (printed.low <= most + slack and least - slack <= printed.high):
        return TRUNCATED
    return INCONSISTENT
