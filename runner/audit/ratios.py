"""Speed-ups, efficiencies and changes in percent: what they may have been computed from."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.audit.bases import added, comparable, measured, of_another_role
from runner.audit.groups import Comparison, comparisons, groupings
from runner.audit.quantities import plain
from runner.audit.readings import LOOSE, Reading, stab
from runner.audit.roles import Role, assumed
from runner.audit.spans import Span, ratio, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.audit.columns import Column

_MOST_STEPS = 60_000
_EXACT = Span(1.0, 1.0, 1.0)
_PER_DEVICE = ("/gpu", "per gpu", "per-gpu", "/device", "per device", "单卡", "每卡", "/卡")


@dataclass(frozen=True)
class Context:
    """What a derived column of a table is computed from."""

    columns: Sequence[Column]
    counts: tuple[tuple[float | None, ...], ...]

    def of(self, *roles: Role) -> list[Column]:
        """Return the columns of some roles."""
        return [column for column in self.columns if column.role in roles]


def process_counts(columns: Sequence[Column]) -> tuple[tuple[float | None, ...], ...]:
    """Return what may be the number of processes of each row: a total, nodes times processes, or one column alone."""
    named = [column for column in columns if column.role is Role.COUNT]
    rows = len(columns[0].cells) if columns else 0
    ones = [tuple(value.number if value else None for value in column.values) for column in named]

    def weight(place: int) -> int:
        words = plain(named[place].heading).lower()
        if any(word in words for word in ("world", "total", "layout", "process", "进程", "总")):
            return 0
        if any(word in words for word in ("node", "machine", "host", "节点", "机器", "设备数")):
            return 2
        return 1

    order = sorted(range(len(ones)), key=weight)
    result = [ones[place] for place in order]
    for first in range(len(ones)):
        for second in range(first + 1, min(len(ones), 4)):
            pairs = zip(ones[first], ones[second], strict=True)
            product = tuple(one * other if one and other else None for one, other in pairs)
            per = any(
                word in plain(named[place].heading).lower()
                for place in (first, second)
                for word in ("per", "单机", "每", "/")
            )
            result.insert(0 if per else len(result), product)
    return tuple(dict.fromkeys(one for one in result if len(one) == rows))[:6]


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
    sums = list(added(bases))
    found = comparisons(context.columns, column, ones_of(column))
    found = found[: max(8, _MOST_STEPS // (max(1, len(bases) + len(others) + len(sums)) * len(column.cells) * 4))]
    sure = _is_certain(column, bases, [*unknown, *others])
    for way in found:
        for base in bases:
            yield from _over(column, base, way, context, sure=sure)
    yield from _in_rows(column, [*bases, *unknown])
    if column.role in (Role.SPEEDUP, Role.SLOWDOWN) and not any(ones_of(column)):
        for base in bases:
            yield from _one_baseline(column, base, context)
    for way in found:
        for base in [*others, *sums]:
            yield from _over(column, base, replace(way, rank=way.rank + LOOSE), context, sure=False)


def _is_certain(column: Column, bases: Sequence[Column], unknown: Sequence[Column]) -> bool:
    """Whether a column can follow from nothing but the only time, or the only throughput, of the table."""
    times = [base for base in bases if base.role is Role.TIME and not base.inner]
    rates = [base for base in bases if base.role is Role.RATE and not base.inner]
    known = [one for one in unknown if one.known() > 1]
    return column.explicit and not column.inner and len(times) < 2 and len(rates) < 2 and bool(bases) and not known  # noqa: PLR2004


def _over(column: Column, base: Column, way: Comparison, context: Context, *, sure: bool) -> Iterator[Reading]:
    """Compare rows with their baselines, in one column."""
    spans = [span(value) if value else None for value in base.values]
    ratios: list[Span | None] = []
    for row, other in enumerate(way.bases):
        if other is None or spans[other] is None or spans[row] is None or not _alike(base, row, other):
            ratios.append(None)
        elif other == row:
            ratios.append(_EXACT)
        else:
            above, below = (other, row) if base.role is Role.TIME else (row, other)
            ratios.append(_known(ratio(spans[above], spans[below])))
    same = frozenset(row for row, other in enumerate(way.bases) if other == row)
    for values, rank, words, formula in _shapes(column, base, ratios, way.bases, context):
        yield Reading(
            tuple(values),
            _Formula(base, way.bases, formula),
            way.rank + rank,
            certain=sure and way.anchored,
            same=same,
            bases=way.bases,
            note=words,
        )


def _alike(base: Column, row: int, other: int) -> bool:
    """Whether two times are of the same thing: one per step and one per epoch have no ratio that means anything."""
    mine, its = base.values[row], base.values[other]
    return mine is not None and its is not None and mine.per == its.per


@dataclass(frozen=True)
class _Formula:
    """What a row was computed from, in words."""

    base: Column
    bases: tuple[int | None, ...]
    shape: str

    def __call__(self, row: int) -> str:
        other = self.bases[row]
        if other is None:
            return ""
        mine, its = _word(self.base, row), _word(self.base, other)
        first, second = (its, mine) if self.base.role is Role.TIME else (mine, its)
        return self.shape.replace("{r}", f"{first} / {second}").replace("{i}", f"{second} / {first}")


def _word(column: Column, row: int) -> str:
    """Return the number of a cell as it is printed."""
    return re.sub(r"\s*[\[(±].*", "", plain(column.cells[row].text)).strip("*_` ")[:40]


_Shape = tuple["list[Span | None]", int, str, str]


def _shapes(
    column: Column, base: Column, ratios: list[Span | None], bases: Sequence[int | None], context: Context
) -> Iterator[_Shape]:
    """Yield the numbers that may be meant by a ratio: as it is, of scaled work, per process, or as a change."""
    rows = range(len(ratios))
    for place, counts in enumerate(context.counts or (tuple([None] * len(ratios)),)):
        over = [_times_more(counts, row, bases[row]) for row in rows]
        own_counts = [counts[other] if (other := bases[row]) is not None else None for row in rows]
        if column.role is Role.EFFICIENCY:
            unit, sign = (100.0, "100 * ") if column.percent else (1.0, "")
            shared = [unit / one if one is not None else None for one in over]
            per_device = base.role is Role.RATE and any(word in plain(base.heading).lower() for word in _PER_DEVICE)
            yield _scaled(ratios, shared), place + 4 * per_device, "strong scaling", f"{sign}{{r}} / (p / p0)"
            yield _scaled(ratios, [unit] * len(ratios)), place + 5 - 4 * per_device, "weak scaling", f"{sign}{{r}}"
            continue
        if column.percent:
            if place == 0:
                yield from _changes(column, ratios)
            continue
        if place == 0:
            if column.role is Role.SLOWDOWN:
                yield [one and one.inverse() for one in ratios], 0, "", "{i}"
                continue
            yield ratios, 0, "", "{r}"
            if column.role is Role.CHANGE:
                yield from _changes(column, ratios, 1.0)
                continue
        yield _scaled(ratios, over), 6 + place, "the work grows with the processes", "{r} * p / p0"
        yield _scaled(ratios, own_counts), 7 + place, "the baseline counts as its number of processes", "{r} * p0"


def _times_more(counts: Sequence[float | None], row: int, base: int | None) -> float | None:
    """Return how many times the processes of its baseline a row has."""
    mine, own = counts[row], counts[base] if base is not None else None
    return mine / own if mine and own else None


def _scaled(ratios: Sequence[Span | None], factors: Sequence[float | None]) -> list[Span | None]:
    return [one.times(factor) if one and factor else None for one, factor in zip(ratios, factors, strict=True)]


def _changes(column: Column, ratios: list[Span | None], unit: float = 100.0) -> Iterator[_Shape]:
    sign = "100 * " if unit > 1 else ""
    speed = [one.plus(-1).times(unit) if one else None for one in ratios]
    less = [one.inverse().times(-unit).plus(unit) if one else None for one in ratios]
    less = [Span(one.high, one.middle, one.low) if one else None for one in less]
    more = [one.inverse().plus(-1).times(unit) if one else None for one in ratios]
    whole = [one.times(unit) if one else None for one in ratios]
    words = plain(column.heading).lower()
    time = any(
        word in words for word in ("time", "latency", "时间", "耗时", "reduc", "降低", "减少", "缩短", "节省", "saving")
    )
    gain = (speed, 0 if not time else 2, "faster by throughput", f"{sign}({{r}} - 1)")
    loss = (less, 1 if not time else 0, "less time, not more throughput", f"{sign}(1 - {{i}})")
    yield from (loss, gain) if time else (gain, loss)
    yield more, 3, "a change of the time", f"{sign}({{i}} - 1)"
    if column.role is not Role.CHANGE or unit > 1:
        yield whole, 0 if column.role is Role.SPEEDUP else 4, "a ratio in percent", f"{sign}{{r}}"


def _from_speedups(column: Column, context: Context) -> Iterator[Reading]:
    """Divide the printed speed-up by the number of processes."""
    unit = 100.0 if column.percent else 1.0
    sign = "100 * " if column.percent else ""
    for source in context.of(Role.SPEEDUP):
        if source.percent or assumed(source.heading) != assumed(column.heading):
            continue
        spans = [span(value) if value else None for value in source.values]
        bases = [row for row, one in enumerate(ones_of(source)) if one]
        for place, counts in enumerate(context.counts):
            known = [count for count in counts if count]
            firsts = {1.0, *(counts[row] or 1.0 for row in bases[:3])} | (
                {min(known)} if known and not bases else set()
            )
            for first in sorted(firsts):
                factors = [first * unit / count if count else None for count in counts]

                def formula(
                    row: int, source: Column = source, counts: Sequence[float | None] = counts, first: float = first
                ) -> str:
                    share = "" if first == 1 else f" / {first:g}"
                    return f"{sign}{_word(source, row)} / {counts[row]:g}{share}"

                values = _scaled(spans, factors)
                rank = place + (1 if first != 1 else 0)
                certain = (
                    column.explicit
                    and len(context.of(Role.SPEEDUP)) == 1
                    and len(context.counts) == 1
                    and len(firsts) == 1
                )
                certain = certain and not context.of(Role.TIME, Role.RATE)
                yield Reading(tuple(values), formula, rank, certain=certain, same=frozenset(bases))


def _in_rows(column: Column, bases: Sequence[Column]) -> Iterator[Reading]:
    """Compare two columns of the same row, for example `before` and `after`."""
    if column.role is Role.EFFICIENCY:
        return
    for one in bases:
        for other in bases:
            if one is other or (one.role, other.role) in ((Role.TIME, Role.RATE), (Role.RATE, Role.TIME)) or one.inner:
                continue
            first = [span(value) if value else None for value in one.values]
            second = [span(value) if value else None for value in other.values]
            above, below = (second, first) if Role.RATE in (one.role, other.role) else (first, second)
            ratios = [_known(ratio(up, down)) for up, down in zip(above, below, strict=True)]
            shapes: list[_Shape] = [(ratios, 0, "", "{r}")]
            if column.percent or column.role is Role.CHANGE:
                shapes = list(_changes(column, ratios, 100.0 if column.percent else 1.0))
            elif column.role is Role.SLOWDOWN:
                shapes = [([item and item.inverse() for item in ratios], 0, "", "{i}")]
            for values, rank, words, shape in shapes:

                def formula(row: int, one: Column = one, other: Column = other, shape: str = shape) -> str:
                    left, right = (other, one) if Role.RATE in (one.role, other.role) else (one, other)
                    return shape.replace("{r}", f"{_word(left, row)} / {_word(right, row)}").replace(
                        "{i}", f"{_word(right, row)} / {_word(left, row)}"
                    )

                yield Reading(tuple(values), formula, 12 + rank, note=words)


def _known(one: Span | None) -> Span | None:
    """Leave out a ratio that its numbers leave open, for example that of 2 and 3: nearly everything follows from it."""
    return one if one and one.high - one.low <= one.middle / 2 else None


def _one_baseline(column: Column, base: Column, context: Context) -> Iterator[Reading]:
    """Look for one baseline that is not in the table and fits all rows."""
    printed = [span(value) if value else None for value in column.values]
    spans = [span(value) if value else None for value in base.values]
    if column.role is Role.SLOWDOWN:
        printed = [one and one.inverse() for one in printed]
    if column.percent:
        printed = [one and one.times(0.01) for one in printed]
    unit = 100.0 if column.percent else 1.0
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
        if not fitted:
            continue

        def formula(row: int, groups: tuple[int, ...] = groups, fitted: dict[int, Span] = fitted) -> str:
            known = f"{fitted[groups[row]].middle / _scale(base, row):.4g}"
            mine = _word(base, row)
            return f"{known} / {mine}" if base.role is Role.TIME else f"{mine} / {known}"

        yield Reading(
            tuple(values), formula, 20 + rank, free=len(fitted), note="a baseline outside the table that fits most rows"
        )


def _scale(column: Column, row: int) -> float:
    value = column.values[row]
    return value.scale if value else 1.0


def _implied(speed: Span | None, here: Span | None, role: Role) -> Span | None:
    if speed is None or here is None:
        return None
    if role is Role.RATE:
        return ratio(here, speed)
    return Span(speed.low * here.low, speed.middle * here.middle, speed.high * here.high)
