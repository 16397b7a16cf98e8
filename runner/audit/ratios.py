"""Speed-ups, efficiencies and changes: what they may have been computed from."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.audit.bases import added, comparable, measured, numbers, of_another_role, theoretical
from runner.audit.certain import is_certain, is_scaling, named_pair, names_only, of_same_work
from runner.audit.groups import Comparison, comparisons, groupings
from runner.audit.quantities import plain
from runner.audit.readings import LOOSE, Reading, stab
from runner.audit.roles import Role, assumed
from runner.audit.shapes import Ratios, Shape, changes, inverse, negative, scaled, shapes
from runner.audit.spans import Span, difference, ratio, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.audit.columns import Column
    from runner.audit.shapes import Context

_MOST_STEPS = 60_000
_EXACT = Span(1.0, 1.0, 1.0)
_IN_ROWS = 12
_FAR = 10
_OUTSIDE = 20
_POINTS = re.compile(r"points?\b|\bpp\b|\bpts?\b|\babs|δ|delta|differ|百分点", re.IGNORECASE)
_WIDEST = 0.4
"""An interval of implied numbers of processes that is wider says nothing."""


def ones_of(column: Column) -> list[bool]:
    """Return which rows print that they are the baseline: exactly 1, 100%, or a change of 0%."""
    exact = 0.0 if column.role is Role.CHANGE else 100.0 if column.percent else 1.0
    return [value is not None and value.number == exact and not value.about for value in column.values]


def readings(column: Column, context: Context) -> Iterator[Reading]:
    """Yield the ways to compute a speed-up, slow-down, efficiency or change, the plainest first."""
    if column.role is Role.EFFICIENCY:
        yield from _from_speedups(column, context)
    bases = measured(column, context.columns)
    unknown = comparable(column, context.of(Role.UNKNOWN))
    others = of_another_role(column, context.columns)
    if column.role is Role.CHANGE:
        others += [source for source in numbers(column, context.columns) if source not in bases]
    sums = list(added(bases))
    found = comparisons(context.columns, column, ones_of(column))
    found = found[: max(8, _MOST_STEPS // (max(1, len(bases) + len(others) + len(sums)) * len(column.cells) * 6))]
    sure = is_certain(column, bases, others)
    for way in found:
        for base in bases:
            yield from _over(column, base, way, context, sure=sure)
    beside = numbers(column, context.columns) if column.role is Role.CHANGE else unknown
    yield from _in_rows(column, [*bases, *(source for source in beside if source not in bases)])
    if column.role in (Role.SPEEDUP, Role.SLOWDOWN) and not any(ones_of(column)):
        for base in bases:
            yield from _one_baseline(column, base, context)
    if column.role is Role.CHANGE:
        yield from _differences(column, found[:8], context)
    for base in bases:
        yield from _shared_baseline(column, base, context)
    if column.role is Role.EFFICIENCY:
        yield from _of_the_ideal(column, context)
        for way in found[:8]:
            for base in bases:
                yield from _of_rounded(column, base, way, context)
        for way in found[:8]:
            for base in bases:
                yield from _implied_processes(column, base, way)
    for way in found:
        for base in [*others, *sums]:
            loose = LOOSE if column.role is not Role.CHANGE else _IN_ROWS
            yield from _over(column, base, replace(way, rank=way.rank + loose), context, sure=False)


def _over(column: Column, base: Column, way: Comparison, context: Context, *, sure: bool) -> Iterator[Reading]:
    """Compare rows with their baselines, in one column."""
    ratios = ratios_over(base, way.bases)
    same = frozenset(row for row, other in enumerate(way.bases) if other == row)
    named = way.anchored and column.explicit and of_same_work(context.columns, way)
    named = named and names_only(column, base, context.columns, [*same])
    certain = sure and named and (column.role is not Role.EFFICIENCY or bool(context.processes.said))
    plainest = named and is_scaling(context, way)
    for shape in shapes(column, base, ratios, way.bases, context):
        yield Reading(
            tuple(shape.values),
            Formula(base, way.bases, shape.formula),
            way.rank + shape.rank,
            certain=certain and shape.rank < _FAR,
            plainest=plainest and shape.rank < _FAR,
            same=same,
            bases=way.bases,
            note=shape.note,
        )


def ratios_over(base: Column, bases: Sequence[int | None]) -> Ratios:
    """Return how many times as fast as its baseline each row is."""
    spans = spans_of(base)
    ratios: Ratios = []
    for row, other in enumerate(bases):
        if other is None or spans[other] is None or spans[row] is None or not _alike(base, row, other):
            ratios.append(None)
        elif other == row:
            ratios.append(_EXACT)
        else:
            above, below = (other, row) if base.role is Role.TIME else (row, other)
            ratios.append(_known(ratio(spans[above], spans[below])))
    return ratios


def spans_of(column: Column) -> Ratios:
    """Return the intervals of the numbers of a column."""
    return [span(value) if value else None for value in column.values]


def _alike(base: Column, row: int, other: int) -> bool:
    """Return whether two times are of the same thing: one per step and one per epoch have no ratio."""
    mine, its = base.values[row], base.values[other]
    return mine is not None and its is not None and mine.per == its.per


def _known(found: Span | None) -> Span | None:
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


def _from_speedups(column: Column, context: Context) -> Iterator[Reading]:
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
                yield Reading(tuple(values), formula, rank, certain=certain, same=frozenset(bases))
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


def _implied_processes(column: Column, base: Column, way: Comparison) -> Iterator[Reading]:
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
    if often > 1 and usual != 1:
        alike = (usual,) * len(counts)
        values = tuple(scaled(speedups, [unit / usual] * len(counts))) if usual else ()
        yield Reading(values, _Implied(source, bases, alike), rank + _IN_ROWS, 1, same=same, bases=bases, note=note)
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


def _in_rows(column: Column, bases: Sequence[Column]) -> Iterator[Reading]:
    """Compare two columns of the same row, for example `before` and `after`."""
    if column.role is Role.EFFICIENCY:
        return
    roles = [base.role for base in bases]
    for first in bases:
        for second in bases:
            plainest = 2 if roles.count(first.role) == 2 and first.role in (Role.TIME, Role.RATE) else _IN_ROWS  # noqa: PLR2004
            if first is second or {first.role, second.role} == {Role.TIME, Role.RATE} or first.inner:
                continue
            above, below = (second, first) if Role.RATE in (first.role, second.role) else (first, second)
            pairs = zip(spans_of(above), spans_of(below), strict=True)
            ratios = [_known(ratio(up, down)) for up, down in pairs]
            found = [Shape(ratios, 0, "{r}"), Shape(inverse(ratios), 10, "{i}")]
            if column.percent or column.role is Role.CHANGE:
                found = list(changes(column, ratios))
            elif column.role is Role.SLOWDOWN:
                found = [Shape(inverse(ratios), 0, "{i}")]
            certain = named_pair(column, first, second)
            for shape in found:
                rank = shape.rank if certain else plainest + shape.rank
                formula = Formula(above, (), shape.formula, below)
                sure = certain and shape.rank < _FAR
                yield Reading(tuple(shape.values), formula, rank, certain=sure, note=shape.note)


def _of_the_ideal(column: Column, context: Context) -> Iterator[Reading]:
    """Divide what was measured by what is called ideal."""
    unit = 100.0 if column.percent else 1.0
    for ideal in theoretical(context.of(Role.RATE, Role.SPEEDUP, Role.TIME)):
        for source in context.of(ideal.role):
            if assumed(source.heading):
                continue
            above, below = (ideal, source) if ideal.role is Role.TIME else (source, ideal)
            pairs = zip(spans_of(above), spans_of(below), strict=True)
            values = scaled([_known(ratio(up, down)) for up, down in pairs], unit)
            yield Reading(tuple(values), Formula(above, (), "{r}", below), _IN_ROWS)


def _differences(column: Column, ways: Sequence[Comparison], context: Context) -> Iterator[Reading]:
    """Subtract two columns of one kind, or a row from its baseline: points of accuracy, or seconds saved."""
    sources = numbers(column, context.columns)
    plain_rank = 0 if _POINTS.search(plain(column.heading)) else _IN_ROWS
    for first in sources:
        for second in sources:
            if first is not second and first.role is second.role:
                spans = [difference(mine, its) for mine, its in zip(first.values, second.values, strict=True)]
                yield Reading(tuple(spans), Formula(first, (), "{d}", second), plain_rank, note="a difference")
    for source in sources:
        for way in ways:
            its = [source.values[base] if base is not None else None for base in way.bases]
            spans = [difference(mine, other) for mine, other in zip(source.values, its, strict=True)]
            same = frozenset(row for row, other in enumerate(way.bases) if other == row)
            for values, shape in ((spans, "{d}"), (negative(spans), "-({d})")):
                formula = Formula(source, way.bases, shape)
                rank = way.rank + plain_rank
                yield Reading(tuple(values), formula, rank, same=same, bases=way.bases, note="a difference")


def _of_rounded(column: Column, base: Column, way: Comparison, context: Context) -> Iterator[Reading]:
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


def _shared_baseline(column: Column, base: Column, context: Context) -> Iterator[Reading]:
    """Take a baseline outside the table from the efficiencies for the speed-ups, or the other way around."""
    other_role = {Role.EFFICIENCY: Role.SPEEDUP, Role.SPEEDUP: Role.EFFICIENCY}.get(column.role)
    spans = spans_of(base)
    alone = [1.0] * len(spans)
    for other in context.of(other_role) if other_role else ():
        for place, counts in enumerate(context.processes.vectors[: context.processes.said]):
            shares = [1 / count if count else None for count in counts]
            mine, its = (shares, alone) if column.role is Role.EFFICIENCY else (alone, shares)
            printed = scaled(spans_of(other), 0.01 if other.percent else 1.0)
            speeds = scaled(printed, [1 / share if share else None for share in its])
            common = stab([_implied(speed, here, base.role) for speed, here in zip(speeds, spans, strict=True)])
            if common:
                found = [(ratio(common, here) if base.role is Role.TIME else ratio(here, common)) for here in spans]
                values = scaled(scaled(found, mine), 100.0 if column.percent else 1.0)
                formula = _Outside(base, (0,) * len(spans), {0: common}, "" if mine is alone else " / p")
                note = f"a baseline that follows from {plain(other.heading)}"
                yield Reading(tuple(values), formula, _FAR + place, note=note)


def _one_baseline(column: Column, base: Column, context: Context) -> Iterator[Reading]:
    """Look for one baseline that is not in the table and fits all rows."""
    unit = 100.0 if column.percent else 1.0
    printed = scaled(spans_of(column), 1 / unit)
    spans = spans_of(base)
    if column.role is Role.SLOWDOWN:
        printed = inverse(printed)
    for rank, groups in enumerate(groupings(context.columns, len(spans))[:12]):
        values: list[Span | None] = [None] * len(spans)
        fitted: dict[int, Span] = {}
        for group in sorted(set(groups)):
            implied = [
                _implied(speed, here, base.role) if groups[row] == group else None
                for row, (speed, here) in enumerate(zip(printed, spans, strict=True))
            ]
            common = stab(implied)
            if common is None:
                continue
            fitted[group] = common
            for row, here in enumerate(spans):
                if groups[row] == group and here:
                    found = ratio(common, here) if base.role is Role.TIME else ratio(here, common)
                    found = found.inverse() if found and column.role is Role.SLOWDOWN else found
                    values[row] = found and found.times(unit)
        if fitted:
            formula, note = _Outside(base, groups, fitted), "a baseline outside the table that fits most rows"
            yield Reading(tuple(values), formula, _OUTSIDE + rank, free=len(fitted), note=note)


@dataclass(frozen=True)
class _Outside:
    """A row over a baseline that the table does not print, in words."""

    base: Column
    groups: tuple[int, ...]
    fitted: dict[int, Span]
    share: str = ""

    def __call__(self, row: int) -> str:
        value = self.base.values[row]
        known = f"{self.fitted[self.groups[row]].middle / (value.scale if value else 1.0):.4g}"
        mine = word(self.base, row)
        return (f"{known} / {mine}" if self.base.role is Role.TIME else f"{mine} / {known}") + self.share


def _implied(speed: Span | None, here: Span | None, role: Role) -> Span | None:
    if speed is None or here is None:
        return None
    if role is Role.RATE:
        return ratio(here, speed)
    return Span(speed.low * here.low, speed.middle * here.middle, speed.high * here.high)
