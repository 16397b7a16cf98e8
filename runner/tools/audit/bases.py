"""The columns that a derived column may follow from: times and throughputs, and what else may be meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from runner.tools.audit.columns import Column
from runner.tools.audit.quantities import Quantity, plain
from runner.tools.audit.roles import Role, assumed, heading_unit
from runner.tools.audit.tables import Cell

_MOST = 8
_MOST_ADDED = 4
_SPREAD = re.compile(r"std|dev(?:iation)?\b|误差|varian|\bci\b|interval|error|±", re.IGNORECASE)


def comparable(column: Column, others: Sequence[Column]) -> list[Column]:
    """Return the columns that a column may follow from: a theoretical one follows from no measured one."""
    word = assumed(column.heading)
    return [one for one in others if assumed(one.heading) == word] if word else list(others)


def theoretical(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that are called ideal."""
    return [column for column in columns if assumed(column.heading) == "theory"]


def numbers(column: Column, columns: Sequence[Column]) -> list[Column]:
    """Return columns of measures of any kind, of which a change may be printed: accuracies, memory, times."""
    roles = (Role.TIME, Role.RATE, Role.ACCURACY, Role.OTHER, Role.UNKNOWN)
    return comparable(column, [one for one in columns if one.role in roles and not one.inner])[:_MOST]


def measured(column: Column, columns: Sequence[Column]) -> list[Column]:
    """Return the times and throughputs that a column may follow from, the nearest first."""
    found = comparable(column, [one for one in columns if one.role in (Role.TIME, Role.RATE)])[:_MOST]
    return sorted(found, key=lambda one: (one.index > column.index, abs(one.index - column.index)))


def of_another_role(column: Column, columns: Sequence[Column]) -> list[Column]:
    """Return columns whose headings have a unit of time, but name something else: `Cost (GPU-min)`."""
    roles = (Role.OTHER, Role.ACCURACY, Role.COUNT, Role.SAMPLES, Role.BATCH, Role.TOTAL)
    found = [
        replace(one, role=Role.TIME)
        for one in columns
        if one.role in roles and not one.inner and _is_time(one) and not _SPREAD.search(plain(one.heading))
    ]
    return comparable(column, found)[:_MOST_ADDED]


def _is_time(column: Column) -> bool:
    kinds = {value.kind for value in column.values if value}
    return kinds == {"time"} or (kinds == {""} and heading_unit(column.heading)[0] == "time")


def added(columns: Sequence[Column]) -> Iterator[Column]:
    """Yield the sums of time columns of one unit, for example of training and evaluation."""
    times = [one for one in columns if one.role is Role.TIME and not one.inner][:_MOST_ADDED]
    for size in range(len(times), 1, -1):
        for some in combinations(times, size):
            if total := _sum(some):
                yield total


def _sum(columns: Sequence[Column]) -> Column | None:
    if len({(value.kind, value.scale, value.per) for one in columns for value in one.values if value}) != 1:
        return None
    rows = [_add(values) for values in zip(*(one.values for one in columns), strict=True)]
    first = columns[0]
    cells = tuple(
        Cell(f"{value.number:.7g}" if value else "", cell.line) for value, cell in zip(rows, first.cells, strict=True)
    )
    return replace(first, heading=" + ".join(one.heading for one in columns), cells=cells, values=tuple(rows))


def _add(values: Sequence[Quantity | None]) -> Quantity | None:
    known = [value for value in values if value]
    if len(known) < len(values):
        return None
    return replace(known[0], number=sum(one.number for one in known), step=sum(one.step for one in known), spread=0.0)
