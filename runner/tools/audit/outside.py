"""Baselines that the table does not print, as far as its numbers agree on one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from runner.tools.audit.columns import Column
from runner.tools.audit.formulas import ones_of, spans_of, word
from runner.tools.audit.groups import groupings
from runner.tools.audit.quantities import plain
from runner.tools.audit.readings import FAR, Reading, stab
from runner.tools.audit.roles import Role
from runner.tools.audit.shapes import Context, inverse, scaled
from runner.tools.audit.spans import Span, ratio

_OUTSIDE = 20


def shared_baseline(column: Column, base: Column, context: Context) -> Iterator[Reading]:
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
                same = frozenset(row for row, printed_one in enumerate(ones_of(column)) if printed_one)
                yield Reading(tuple(values), formula, FAR + place, same=same, note=note)


def one_baseline(column: Column, base: Column, context: Context) -> Iterator[Reading]:
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
