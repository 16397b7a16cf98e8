"""Throughputs: samples divided by time."""

import math
import re
from collections.abc import Callable, Iterator

from runner.tools.audit.columns import Column, comparable
from runner.tools.audit.counts import Counts
from runner.tools.audit.formulas import Context, per_device
from runner.tools.audit.groups import groupings
from runner.tools.audit.quantities import plain
from runner.tools.audit.readings import LOOSE, Reading, stab
from runner.tools.audit.roles import Role
from runner.tools.audit.spans import ONE, Ratios, Span, divided, product, ratio, scaled

_FEWEST = 3
"""Rows that have to agree before a number that is not printed is believed, for example the samples of an epoch."""


def readings(column: Column, context: Context) -> Iterator[Reading]:
    """Yield the ways to compute a throughput: from printed samples or batches, or from samples that fit most rows."""
    things = {value.per for value in column.values if value and value.per}
    if column.role is not Role.RATE or column.inner or len(things) > 1:
        return
    works = list(_works(column, context))
    for time in comparable(column, context.of(Role.TIME)):
        averaged = _averaged(column) or _averaged(time)
        units = all(value.kind == "time" for value in time.values if value)
        for rank, (work, words) in enumerate(works):
            if units and words:
                values = [ratio(done, here) for done, here in zip(work, time.spans, strict=True)]
                yield Reading(values, _by_time(words, time), rank + (LOOSE if averaged else 0))
        if averaged:
            continue
        for rank, (work, words) in enumerate([(works[0][0], ""), *works]):
            yield from _fitted(column, time, work, words, context, 10 + rank)
    for other in comparable(column, context.of(Role.RATE)):
        # The total is not computed from the throughput of a device, or a slip would accuse both.
        vectors = context.processes.vectors if per_device(column) and not per_device(other) else ()
        for rank, counts in enumerate(vectors):
            yield Reading(divided(other.spans, counts), _per_device(other, counts), 5 + rank)


def _works(column: Column, context: Context) -> Iterator[tuple[Ratios, str]]:
    """Yield the work of each row, with its words: one unit, samples, batches, and each times the processes."""
    alike: Ratios = [ONE] * len(column.cells)
    yield alike, "1"
    for source in context.of(Role.SAMPLES, Role.BATCH):
        yield source.spans, source.heading
        for counts in context.processes.said:
            yield scaled(source.spans, counts), f"{source.heading} * processes"
            if per_device(column):
                yield divided(source.spans, counts), f"{source.heading} / processes"
    for counts in context.processes.said:
        yield scaled(alike, counts), ""
        if per_device(column):
            yield divided(alike, counts), ""


def _fitted(column: Column, time: Column, work: Ratios, words: str, context: Context, rank: int) -> Iterator[Reading]:
    """Look for one amount of work that fits most rows."""
    shares = [ratio(here, own) for here, own in zip(time.spans, work, strict=True)]
    implied = [product(rate, share) for rate, share in zip(column.spans, shares, strict=True)]
    for depth, groups in enumerate(groupings(context.columns, len(shares))[:8]):
        values: Ratios = [None] * len(shares)
        free = 0
        for group in sorted(set(groups)):
            known = [amount for row, amount in enumerate(implied) if amount and groups[row] == group]
            common = stab(known)
            if common is None:
                continue
            inside = sum(amount.low <= common.high and common.low <= amount.high for amount in known)
            if inside < _FEWEST or inside - 1 < 2 * (len(known) - inside):
                continue
            free += 1
            for row, share in enumerate(shares):
                if groups[row] == group and share and not _has_other_work(implied[row], common, row, context):
                    values[row] = ratio(common, share)
        if free:
            note = "one amount of work, which fits most rows"
            yield Reading(values, _by_time(words or "work", time), rank + depth, free=free, note=note)


def _has_other_work(own: Span | None, common: Span, row: int, context: Context) -> bool:
    """Return whether a row has 2, 3, ... times the work of the others, and its label may say so: `bs 16`, `H100*`."""
    labels = [column.cells[row].text for column in context.columns if column.role is Role.LABEL]
    if not (own and own.middle and common.middle) or not re.search(r"[\d(*†]", " ".join(labels)):
        return False
    share = own.middle / common.middle
    whole = round(max(share, 1 / share))
    return whole > 1 and math.isclose(max(share, 1 / share), whole, rel_tol=0.02)


def _by_time(work: str, time: Column) -> Callable[[int], str]:
    """Return the words for work divided by the time of a row."""
    return lambda row: f"{work} / {plain(time.cells[row].text)[:40]}"


def _per_device(total: Column, counts: Counts) -> Callable[[int], str]:
    """Return the words for the throughput of a row divided by its devices."""
    return lambda row: f"{plain(total.cells[row].text)[:40]} / {counts[row] or 0:g}"


def _averaged(column: Column) -> bool:
    """Return whether a column holds means or percentiles: samples by a mean time are no mean of samples by time."""
    words = plain(column.heading).lower()
    return bool(re.search(r"\bavg|average|mean|median|平均|\bp\d\d|percentile|\d\d\s*%", words))
