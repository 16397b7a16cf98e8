"""Efficiencies: speed-ups divided by numbers of processes, which the table says or leaves open."""

import math
from collections import Counter
from collections.abc import Callable, Iterator

from runner.tools.audit.columns import Column
from runner.tools.audit.counts import Counts
from runner.tools.audit.formulas import Context, Formula, ratios_beside, ratios_over, says_processes, word
from runner.tools.audit.groups import Comparison
from runner.tools.audit.readings import IN_ROWS, LOOSE, Reading
from runner.tools.audit.roles import Role, assumed
from runner.tools.audit.spans import Ratios, Span, divided, ratio, scaled

_WIDEST = 0.4
"""An interval of implied numbers of processes that is wider says nothing."""


def from_speedups(column: Column, context: Context) -> Iterator[Reading]:
    """Divide the printed speed-up by the number of processes."""
    sources = [source for source in context.of(Role.SPEEDUP) if assumed(source.heading) == assumed(column.heading)]
    plainly = column.explicit and len(context.of(Role.SPEEDUP)) == 1
    for source in sources:
        bases = sorted(source.ones)
        for place, counts in enumerate(context.processes.vectors):
            known = [count for count in counts if count]
            firsts = {1.0, *(counts[row] or 1.0 for row in bases[:3])}
            firsts |= {min(known)} if known and not bases else set()
            for first in sorted(firsts):
                certain = plainly and len(context.processes.said) == 1 and len(firsts) == 1 and not place
                values = scaled(divided(source.shares, counts), first * column.unit)
                formula = _share(source, counts, first, "100 * " if column.percent else "")
                rank = 2 * place + (first != 1)
                yield Reading(values, formula, rank, certain=certain, same=source.ones, source=source.index)
    for source in () if says_processes(context) else sources:
        yield from of_some_processes(column, source, source.shares)


def _share(source: Column, counts: Counts, first: float, sign: str) -> Callable[[int], str]:
    """Return the words for a speed-up divided by the number of processes."""
    return lambda row: (
        f"{sign}{word(source, row)} / " + (f"{counts[row]:g}" if first == 1 else f"({counts[row]:g} / {first:g})")
    )


def of_some_processes(
    column: Column, source: Column, speedups: Ratios, way: Comparison | None = None
) -> Iterator[Reading]:
    """Divide speed-ups by the whole number of processes that the efficiencies imply: one for all, or one for each row.

    The latter can only confirm.
    """
    counts: list[float | None] = []
    for speedup, printed in zip(speedups, column.shares, strict=True):
        share = ratio(speedup, printed)
        count = math.ceil(share.low - 1e-9) if share and share.high - share.low < _WIDEST else 0
        counts.append(float(count) if share and 1 <= count <= share.high + 1e-9 else None)
    start = -1 if way else source.index
    usual, often = Counter(count for count in counts if count).most_common(1)[0] if any(counts) else (None, 0)
    way = way or Comparison((None,) * len(counts), 0)
    above = Formula(source, way.bases, "{r}")
    note = "a whole number of processes, which the table does not say"
    tries = [(LOOSE, tuple(counts), True, -1)]
    if often > 1 and usual != 1:
        tries.insert(0, (IN_ROWS, (usual,) * len(counts), False, start))
    for rank, divisors, confirms, from_ in tries:
        yield Reading(
            scaled(divided(speedups, divisors), column.unit),
            _implied(above, divisors),
            way.rank + rank,
            free=0 if confirms else 1,
            confirms=confirms,
            same=way.same,
            bases=way.bases,
            note=note,
            source=from_,
        )


def _implied(above: Formula, counts: Counts) -> Callable[[int], str]:
    """Return the words for a speed-up divided by a number of processes that is not printed."""
    return lambda row: f"{above(row) or word(above.base, row)} / {counts[row] or 0:g}"


def of_the_ideal(column: Column, context: Context) -> Iterator[Reading]:
    """Divide what was measured by what is called ideal."""
    for ideal in context.of(Role.RATE, Role.SPEEDUP, Role.TIME):
        for source in context.of(ideal.role):
            if assumed(ideal.heading) != "theory" or assumed(source.heading):
                continue
            above, below = (ideal, source) if ideal.role is Role.TIME else (source, ideal)
            values = scaled(ratios_beside(above, below), column.unit)
            yield Reading(values, Formula(above, (), "{r}", below), IN_ROWS)


def of_rounded(column: Column, base: Column, way: Comparison, context: Context) -> Iterator[Reading]:
    """Divide what the speed-up should be, rounded as the table prints it, by the processes."""
    ratios = ratios_over(base, way.bases)
    for source in context.of(Role.SPEEDUP)[:2]:
        step = max((value.step for value in source.values if value), default=0.0) / source.unit
        rounded = [_rounded(found, step) if found and step else None for found in ratios]
        for place, counts in enumerate(context.processes.said):
            values = scaled(divided(rounded, counts), column.unit)
            formula = Formula(base, way.bases, "{r} / p")
            rank = way.rank + 2 * place + 2
            yield Reading(values, formula, rank, same=way.same, bases=way.bases, note="of a rounded speed-up")


def _rounded(found: Span, step: float) -> Span:
    low, high = (math.floor(end / step + 0.5) * step for end in (found.low, found.high))
    return Span(low, found.middle, high)
