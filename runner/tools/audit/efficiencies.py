"""Efficiencies: speed-ups divided by numbers of processes, which the table says or leaves open."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from runner.tools.audit.bases import theoretical
from runner.tools.audit.columns import Column
from runner.tools.audit.formulas import Formula, ones_of, ratios_beside, ratios_over, spans_of, word
from runner.tools.audit.groups import Comparison
from runner.tools.audit.readings import IN_ROWS, LOOSE, Reading
from runner.tools.audit.roles import Role, assumed
from runner.tools.audit.shapes import Context, Ratios, scaled
from runner.tools.audit.spans import Span, ratio

_WIDEST = 0.4
"""An interval of implied numbers of processes that is wider says nothing."""


def from_speedups(column: Column, context: Context) -> Iterator[Reading]:
    """Divide the printed speed-up by the number of processes."""
    unit = 100.0 if column.percent else 1.0
    sources = [source for source in context.of(Role.SPEEDUP) if assumed(source.heading) == assumed(column.heading)]
    plainly = column.explicit and len(context.of(Role.SPEEDUP)) == 1
    for source in sources:
        spans = scaled(spans_of(source), 0.01 if source.percent else 1.0)
        bases = [row for row, printed_one in enumerate(ones_of(source)) if printed_one]
        for place, counts in enumerate(context.processes.vectors):
            known = [count for count in counts if count]
            firsts = {1.0, *(counts[row] or 1.0 for row in bases[:3])}
            firsts |= {min(known)} if known and not bases else set()
            for first in sorted(firsts):
                certain = plainly and context.processes.said == 1 and len(firsts) == 1 and not place
                values = scaled(spans, [first * unit / count if count else None for count in counts])
                formula = _Share(source, counts, first, "100 * " if column.percent else "")
                rank = 2 * place + (first != 1)
                same = frozenset(bases)
                yield Reading(tuple(values), formula, rank, certain=certain, same=same, source=source.index)
    for source in sources:
        spans = scaled(spans_of(source), 0.01 if source.percent else 1.0)
        yield from _of_some_processes(column, source, spans, frozenset())


@dataclass(frozen=True)
class _Share:
    """A speed-up divided by the number of processes, in words."""

    source: Column
    counts: tuple[float | None, ...]
    first: float
    sign: str

    def __call__(self, row: int) -> str:
        share = "" if self.first == 1 else f" / {self.first:g}"
        return f"{self.sign}{word(self.source, row)} / {self.counts[row]:g}{share}"


def implied_processes(column: Column, base: Column, way: Comparison, _context: Context) -> Iterator[Reading]:
    """Divide ratios of a column by the whole numbers of processes that the efficiencies imply."""
    same = frozenset(row for row, other in enumerate(way.bases) if other == row)
    return _of_some_processes(column, base, ratios_over(base, way.bases), same, way)


def _of_some_processes(
    column: Column, source: Column, speedups: Ratios, same: frozenset[int], way: Comparison | None = None
) -> Iterator[Reading]:
    """Divide speed-ups by the whole number of processes that the efficiencies imply: one for all, or one for each row.

    The latter can only confirm.
    """
    unit = 100.0 if column.percent else 1.0
    counts: list[float | None] = []
    for speedup, printed in zip(speedups, spans_of(column), strict=True):
        share = ratio(speedup, printed.times(1 / unit)) if printed else None
        count = math.ceil(share.low - 1e-9) if share and share.high - share.low < max(_WIDEST, 0.02 * share.low) else 0
        counts.append(float(count) if share and 1 <= count <= share.high + 1e-9 else None)
    usual, often = Counter(count for count in counts if count).most_common(1)[0] if any(counts) else (None, 0)
    bases = way.bases if way else (None,) * len(counts)
    rank = way.rank if way else 0
    note = "a whole number of processes, which the table does not say"
    start = -1 if way else source.index
    if often > 1 and usual != 1:
        alike = (usual,) * len(counts)
        values = tuple(scaled(speedups, [unit / usual] * len(counts))) if usual else ()
        constant = _Implied(source, bases, alike)
        yield Reading(values, constant, rank + IN_ROWS, 1, same=same, bases=bases, note=note, source=start)
    values = tuple(scaled(speedups, [unit / count if count else None for count in counts]))
    formula = _Implied(source, bases, tuple(counts))
    yield Reading(values, formula, rank + LOOSE, confirms=True, same=same, bases=bases, note=note)


@dataclass(frozen=True)
class _Implied:
    """A speed-up divided by a number of processes that is not printed, in words."""

    source: Column
    bases: tuple[int | None, ...]
    counts: tuple[float | None, ...]

    def __call__(self, row: int) -> str:
        above = Formula(self.source, self.bases, "{r}")(row) or word(self.source, row)
        return f"{above} / {self.counts[row] or 0:g}"


def of_the_ideal(column: Column, context: Context) -> Iterator[Reading]:
    """Divide what was measured by what is called ideal."""
    unit = 100.0 if column.percent else 1.0
    for ideal in theoretical(context.of(Role.RATE, Role.SPEEDUP, Role.TIME)):
        for source in context.of(ideal.role):
            if assumed(source.heading):
                continue
            above, below = (ideal, source) if ideal.role is Role.TIME else (source, ideal)
            values = scaled(ratios_beside(above, below), unit)
            yield Reading(tuple(values), Formula(above, (), "{r}", below), IN_ROWS)


def of_rounded(column: Column, base: Column, way: Comparison, context: Context) -> Iterator[Reading]:
    """Divide what the speed-up should be, rounded as the table prints it, by the processes."""
    unit = 100.0 if column.percent else 1.0
    ratios = ratios_over(base, way.bases)
    same = frozenset(row for row, other in enumerate(way.bases) if other == row)
    for source in context.of(Role.SPEEDUP)[:2]:
        step = max((value.step for value in source.values if value), default=0.0) / (100.0 if source.percent else 1.0)
        rounded = [_rounded(found, step) if found and step else None for found in ratios]
        for place, counts in enumerate(context.processes.vectors[: context.processes.said]):
            values = scaled(rounded, [unit / count if count else None for count in counts])
            formula = Formula(base, way.bases, "{r} / p")
            rank = way.rank + 2 * place + 2
            yield Reading(tuple(values), formula, rank, same=same, bases=way.bases, note="of a rounded speed-up")


def _rounded(found: Span, step: float) -> Span:
    low, high = (math.floor(end / step + 0.5) * step for end in (found.low, found.high))
    return Span(low, found.middle, high)
