"""Throughputs: samples divided by time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runner.tools.audit.bases import comparable
from runner.tools.audit.columns import Column
from runner.tools.audit.groups import groupings
from runner.tools.audit.quantities import plain
from runner.tools.audit.readings import LOOSE, Reading, stab
from runner.tools.audit.roles import Role
from runner.tools.audit.shapes import Context, per_device
from runner.tools.audit.spans import Span, ratio, span

_FEWEST = 3
"""Rows that have to agree before a number that is not printed is believed, for example the samples of an epoch."""


def readings(column: Column, context: Context) -> Iterator[Reading]:
    """Yield the ways to compute a throughput: from printed samples or batches, or from samples that fit most rows."""
    things = {value.per for value in column.values if value and value.per}
    if column.role is not Role.RATE or column.inner or len(things) > 1:
        return
    works = list(_works(column, context))
    for time in comparable(column, context.of(Role.TIME)):
        spans = [span(value) if value else None for value in time.values]
        averaged = _averaged(column) or _averaged(time)
        units = all(value.kind == "time" for value in time.values if value)
        for rank, (work, words) in enumerate(works):
            values = [ratio(one, here) for one, here in zip(work, spans, strict=True)]
            if units and words:
                yield Reading(tuple(values), _Work(words, time), rank + (LOOSE if averaged else 0))
        if averaged:
            continue
        alike: list[Span | None] = [Span(1, 1, 1)] * len(spans)
        for rank, (work, words) in enumerate([(alike, ""), *works]):
            yield from _fitted(column, time, work, words, context, 10 + rank)
    for other in comparable(column, context.of(Role.RATE)):
        if per_device(column) and not per_device(other):
            yield from _per(other, context)


def _works(column: Column, context: Context) -> Iterator[tuple[list[Span | None], str]]:
    if column.cells:
        yield [Span(1.0, 1.0, 1.0)] * len(column.cells), "1"
    for source in context.of(Role.SAMPLES, Role.BATCH):
        spans = [span(value) if value else None for value in source.values]
        yield spans, source.heading
        for counts in context.processes.vectors[: context.processes.said]:
            pairs = list(zip(spans, counts, strict=True))
            yield [one.times(count) if one and count else None for one, count in pairs], f"{source.heading} * processes"
            if per_device(column):
                yield (
                    [one.times(1 / count) if one and count else None for one, count in pairs],
                    f"{source.heading} / processes",
                )
    for counts in context.processes.vectors[: context.processes.said]:
        yield [Span(count, count, count) if count else None for count in counts], ""
        if per_device(column):
            yield [Span(1 / count, 1 / count, 1 / count) if count else None for count in counts], ""


def _fitted(
    column: Column, time: Column, work: Sequence[Span | None], words: str, context: Context, rank: int
) -> Iterator[Reading]:
    """Look for one amount of work that fits most rows."""
    printed = [span(value) if value else None for value in column.values]
    spans = [span(value) if value else None for value in time.values]
    shares = [ratio(here, one) for here, one in zip(spans, work, strict=True)]
    implied = [
        Span(rate.low * share.low, rate.middle * share.middle, rate.high * share.high) if rate and share else None
        for rate, share in zip(printed, shares, strict=True)
    ]
    for depth, groups in enumerate(groupings(context.columns, len(spans))[:8]):
        values: list[Span | None] = [None] * len(spans)
        free = 0
        for group in sorted(set(groups)):
            mine = [one if groups[row] == group else None for row, one in enumerate(implied)]
            common = stab(mine)
            inside = sum(bool(common and one and one.low <= common.high and common.low <= one.high) for one in mine)
            known = sum(one is not None for one in mine)
            if common is None or inside < _FEWEST or inside - 1 < 2 * (known - inside):
                continue
            free += 1
            for row, share in enumerate(shares):
                if groups[row] == group and share:
                    values[row] = ratio(common, share)
        if free:
            note = "one amount of work, which fits most rows"
            yield Reading(tuple(values), _Work(words or "work", time), rank + depth, free=free, note=note)


def _per(total: Column, context: Context) -> Iterator[Reading]:
    """Divide a throughput of all devices; the total is not computed from it, or a slip would accuse both."""
    spans = [span(value) if value else None for value in total.values]
    for rank, counts in enumerate(context.processes.vectors):
        values = [
            whole.times(1 / count) if whole and count else None for whole, count in zip(spans, counts, strict=True)
        ]
        yield Reading(tuple(values), _PerDevice(total, counts), 5 + rank)


@dataclass(frozen=True)
class _Work:
    """What a throughput was computed from."""

    words: str
    time: Column

    def __call__(self, row: int) -> str:
        return f"{self.words} / {plain(self.time.cells[row].text)[:40]}"


@dataclass(frozen=True)
class _PerDevice:
    """What the throughput of one device was computed from."""

    total: Column
    counts: Sequence[float | None]

    def __call__(self, row: int) -> str:
        return f"{plain(self.total.cells[row].text)[:40]} / {self.counts[row] or 0:g}"


def _averaged(column: Column) -> bool:
    """Whether a column holds means or percentiles: samples by a mean time are not the mean of samples by time."""
    words = plain(column.heading).lower()
    return bool(re.search(r"\bavg|average|mean|median|平均|\bp\d\d|percentile|\d\d\s*%", words))
