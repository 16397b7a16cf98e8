"""Ratios of the rows of a column, and what a number was computed from, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runner.tools.audit.columns import Column
from runner.tools.audit.quantities import Quantity, plain
from runner.tools.audit.roles import Role
from runner.tools.audit.shapes import Ratios
from runner.tools.audit.spans import Span, ratio, span

_EXACT = Span(1.0, 1.0, 1.0)


def ratios_over(base: Column, bases: Sequence[int | None]) -> Ratios:
    """Return how many times as fast as its baseline each row is."""
    spans = spans_of(base)
    ratios: Ratios = []
    for row, other in enumerate(bases):
        if other is None or not alike(base.values[row], base.values[other]):
            ratios.append(None)
        elif other == row:
            ratios.append(_EXACT)
        else:
            above, below = (other, row) if base.role is Role.TIME else (row, other)
            ratios.append(known(ratio(spans[above], spans[below])))
    return ratios


def ratios_beside(above: Column, below: Column) -> Ratios:
    """Return the ratios of two columns, row by row."""
    pairs = zip(above.values, below.values, spans_of(above), spans_of(below), strict=True)
    return [known(ratio(up, down)) if alike(mine, its) else None for mine, its, up, down in pairs]


def spans_of(column: Column) -> Ratios:
    """Return the intervals of the numbers of a column."""
    return [span(value) if value else None for value in column.values]


def alike(mine: Quantity | None, its: Quantity | None) -> bool:
    """Return whether two numbers are of the same thing: a time per step and one per epoch have no ratio."""
    if mine is None or its is None:
        return False
    return mine.per == its.per or (mine.kind != "time" and not (mine.per and its.per))


def known(found: Span | None) -> Span | None:
    """Leave out a ratio that its numbers leave open, for example that of 2 and 3: nearly everything follows from it."""
    return found if found and found.high - found.low <= found.middle / 2 else None


@dataclass(frozen=True)
class Formula:
    """What a row was computed from, in words: of `base`, or of `base` beside another column in its own row."""

    base: Column
    bases: tuple[int | None, ...]
    shape: str
    beside: Column | None = None

    def __call__(self, row: int) -> str:
        """Return the words for a row."""
        other = row if self.beside else self.bases[row]
        if other is None:
            return ""
        first, second = word(self.base, row), word(self.beside or self.base, other)
        words = self.shape.replace("{d}", f"{first} - {second}")
        if self.base.role is Role.TIME and not self.beside:
            first, second = second, first
        return words.replace("{r}", f"{first} / {second}").replace("{i}", f"{second} / {first}")


def word(column: Column, row: int) -> str:
    """Return the number of a cell as it is printed."""
    return re.sub(r"\s*[\[(±].*", "", plain(column.cells[row].text)).strip("*_` ")[:40]


def ones_of(column: Column) -> list[bool]:
    """Return which rows print that they are the baseline: exactly 1, 100%, or a change of 0%."""
    exact = 0.0 if column.role is Role.CHANGE else 100.0 if column.percent else 1.0
    return [value is not None and value.number == exact and not value.about for value in column.values]
