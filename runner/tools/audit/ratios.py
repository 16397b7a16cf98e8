"""Speed-ups, efficiencies and changes: what they may follow from, also baselines that the table does not print."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from runner.tools.audit.certain import is_certain, is_pair, is_scaling, named_pair, names_only, of_same_work
from runner.tools.audit.columns import Column, added, comparable, measured, numbers, of_another_role
from runner.tools.audit.counts import Counts
from runner.tools.audit.efficiencies import from_speedups, of_rounded, of_some_processes, of_the_ideal
from runner.tools.audit.formulas import (
    Context,
    Formula,
    Shape,
    changes,
    ratios_beside,
    ratios_over,
    says_processes,
    shapes,
    word,
)
from runner.tools.audit.groups import Comparison, Groups, comparisons, groupings
from runner.tools.audit.quantities import plain
from runner.tools.audit.readings import FAR, IN_ROWS, LOOSE, Reading, stab
from runner.tools.audit.roles import Role
from runner.tools.audit.spans import Ratios, Span, difference, divided, inverse, negative, product, ratio, scaled

_MOST_STEPS = 60_000
_FEW_WAYS = 8
_OUTSIDE = 20
_POINTS = re.compile(r"points?\b|\bpp\b|\bpts?\b|\babs|δ|delta|differ|百分点", re.IGNORECASE)


def readings(column: Column, context: Context) -> Iterator[Reading]:
    """Yield the ways to compute a speed-up, slow-down, efficiency or change, the plainest first."""
    if column.role is Role.EFFICIENCY:
        yield from from_speedups(column, context)
    bases = measured(column, context.columns)
    unknown = comparable(column, context.of(Role.UNKNOWN))
    others = of_another_role(column, context.columns)
    beside, loose = unknown, LOOSE
    if column.role is Role.CHANGE:
        beside, loose = numbers(column, context.columns), IN_ROWS
        others += [source for source in beside if source not in bases]
    others += list(added(bases))
    found = comparisons(context.columns, column)
    found = found[: max(_FEW_WAYS, _MOST_STEPS // (max(1, len(bases) + len(others)) * len(column.cells) * 6))]
    sure = is_certain(column, bases, of_another_role(column, context.columns))
    for way in found:
        for base in bases:
            yield from _over(column, base, way, context, sure=sure)
    yield from _in_rows(column, [*bases, *(source for source in beside if source not in bases)])
    yield from _further(column, bases, found[:_FEW_WAYS], context)
    for way in found:
        for base in others:
            yield from _over(column, base, replace(way, rank=way.rank + loose), context, sure=False)


def _further(
    column: Column, bases: Sequence[Column], ways: Sequence[Comparison], context: Context
) -> Iterator[Reading]:
    """Yield the readings of one role: baselines outside the table, differences, and processes that are not said."""
    for base in bases:
        if column.role in (Role.SPEEDUP, Role.SLOWDOWN) and not column.ones:
            yield from one_baseline(column, base, context)
        yield from shared_baseline(column, base, context)
    if column.role is Role.CHANGE:
        yield from _differences(column, ways, context)
    if column.role is Role.EFFICIENCY:
        yield from of_the_ideal(column, context)
        compared = [(base, way) for way in ways for base in bases]
        for base, way in compared:
            yield from of_rounded(column, base, way, context)
        for base, way in () if says_processes(context) else compared:
            yield from of_some_processes(column, base, ratios_over(base, way.bases), way)


def _over(column: Column, base: Column, way: Comparison, context: Context, *, sure: bool) -> Iterator[Reading]:
    """Compare rows with their baselines, in one column."""
    ratios = ratios_over(base, way.bases)
    named = way.anchored and column.explicit and of_same_work(context.columns, way)
    named = named and names_only(column, base, context.columns, [*way.same])
    certain = sure and named and (column.role is not Role.EFFICIENCY or bool(context.processes.said))
    plainest = named and is_scaling(context, way)
    for shape in shapes(column, base, ratios, way.bases, context):
        yield Reading(
            shape.values,
            Formula(base, way.bases, shape.formula),
            way.rank + shape.rank,
            certain=certain and shape.rank < FAR,
            plainest=plainest and shape.rank < FAR,
            same=way.same,
            bases=way.bases,
            note=shape.note,
            source=base.index if base.role is Role.RATE else -1,
        )


def _in_rows(column: Column, bases: Sequence[Column]) -> Iterator[Reading]:
    """Compare two columns of the same row, for example `before` and `after`."""
    if column.role is Role.EFFICIENCY:
        return
    roles = [base.role for base in bases]
    for first in bases:
        for second in bases:
            plainest = 2 if roles.count(first.role) == 2 and first.role in (Role.TIME, Role.RATE) else IN_ROWS
            if first is second or {first.role, second.role} == {Role.TIME, Role.RATE} or first.inner:
                continue
            above, below = (second, first) if Role.RATE in (first.role, second.role) else (first, second)
            ratios = ratios_beside(above, below)
            found = [Shape(ratios, 0, "{r}"), Shape(inverse(ratios), 10, "{i}")]
            if column.percent or column.role is Role.CHANGE:
                found = list(changes(column, ratios))
            elif column.role is Role.SLOWDOWN:
                found = [Shape(inverse(ratios), 0, "{i}")]
            certain = named_pair(column, first, second)
            for shape in found:
                rank = shape.rank if certain else plainest + shape.rank
                formula = Formula(above, (), shape.formula, below)
                sure = certain and shape.rank < FAR
                yield Reading(shape.values, formula, rank, certain=sure, note=shape.note)


def _differences(column: Column, ways: Sequence[Comparison], context: Context) -> Iterator[Reading]:
    """Subtract two columns of one kind, or a row from its baseline: points of accuracy, or seconds saved."""
    sources = numbers(column, context.columns)
    points = bool(_POINTS.search(plain(column.heading)))
    plain_rank = 0 if points else IN_ROWS
    for first in sources:
        for second in sources:
            if first is not second and first.role is second.role:
                spans = [difference(mine, its) for mine, its in zip(first.values, second.values, strict=True)]
                formula = Formula(first, (), "{d}", second)
                named = points and is_pair(second, first) and first.percent >= column.percent
                yield Reading(spans, formula, plain_rank, certain=named, note="a difference")
    for source in sources:
        for way in ways:
            its = [source.values[base] if base is not None else None for base in way.bases]
            spans = [difference(mine, other) for mine, other in zip(source.values, its, strict=True)]
            for values, shape in ((spans, "{d}"), (negative(spans), "-({d})")):
                formula = Formula(source, way.bases, shape)
                rank = way.rank + plain_rank
                yield Reading(values, formula, rank, same=way.same, bases=way.bases, note="a difference")


def shared_baseline(column: Column, base: Column, context: Context) -> Iterator[Reading]:
    """Take a baseline outside the table from the efficiencies for the speed-ups, or the other way around."""
    other_role = {Role.EFFICIENCY: Role.SPEEDUP, Role.SPEEDUP: Role.EFFICIENCY}.get(column.role)
    groups = (0,) * len(column.cells)
    alone: Counts = (1.0,) * len(column.cells)
    for other in context.of(other_role) if other_role else ():
        for place, counts in enumerate(context.processes.said):
            mine, its = (counts, alone) if column.role is Role.EFFICIENCY else (alone, counts)
            speeds, fitted = _speeds(base, groups, scaled(other.shares, its))
            if fitted:
                values = scaled(divided(speeds, mine), column.unit)
                formula = _outside(base, groups, fitted, "" if mine is alone else " / p")
                note = f"a baseline that follows from {plain(other.heading)}"
                yield Reading(values, formula, FAR + place, same=column.ones, note=note)


def one_baseline(column: Column, base: Column, context: Context) -> Iterator[Reading]:
    """Look for one baseline that is not in the table and fits all rows."""
    slower = column.role is Role.SLOWDOWN
    for rank, groups in enumerate(groupings(context.columns, len(column.cells))[:12]):
        speeds, fitted = _speeds(base, groups, inverse(column.shares) if slower else column.shares)
        if fitted:
            values = scaled(inverse(speeds) if slower else speeds, column.unit)
            formula, note = _outside(base, groups, fitted), "a baseline outside the table that fits most rows"
            yield Reading(values, formula, _OUTSIDE + rank, free=len(fitted), note=note)


def _speeds(base: Column, groups: Groups, printed: Ratios) -> tuple[Ratios, dict[int, Span]]:
    """Return the speed-ups over the baseline of each group that most printed ones imply, and these baselines."""
    speeds: Ratios = [None] * len(groups)
    fitted: dict[int, Span] = {}
    for group in sorted(set(groups)):
        rows = [row for row, own in enumerate(groups) if own == group]
        implied = [
            ratio(base.spans[row], printed[row]) if base.role is Role.RATE else product(printed[row], base.spans[row])
            for row in rows
        ]
        if common := stab(implied):
            fitted[group] = common
            for row in rows:
                here = base.spans[row]
                speeds[row] = ratio(common, here) if base.role is Role.TIME else ratio(here, common)
    return speeds, fitted


def _outside(base: Column, groups: Groups, fitted: dict[int, Span], share: str = "") -> Callable[[int], str]:
    """Return the words for a row over a baseline that the table does not print."""

    def words(row: int) -> str:
        value = base.values[row]
        known = f"{fitted[groups[row]].middle / (value.scale if value else 1.0):.4g}"
        mine = word(base, row)
        return (f"{known} / {mine}" if base.role is Role.TIME else f"{mine} / {known}") + share

    return words
