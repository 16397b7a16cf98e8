"""Block -> Steps: each complete cell over the smallest one of the same axes, and whether that may be claimed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from runner.core.layout import Layout
from runner.report.claims import not_shown, refusal
from runner.report.order import Series, in_order, in_turn
from runner.report.rows import Block, Row
from runner.report.statistics import Difference, Estimate, holm, welch
from runner.tools.pages.details import DetailReader
from runner.tools.pages.lines import line_of

MOST_READ = 12
"""Runs of a cell whose records are read for their node-hours."""
_HOUR = 3600.0


@dataclass(frozen=True)
class Step:
    """One cell against the smallest feasible one.

    Attributes:
        difference: what the speed-up comes from; None for the smallest feasible cell itself.
        claimed: True, or why the speed-up over `base` may not be claimed.
        node_hours: those of one run, start and end included.
    """

    row: Row
    base: Row
    difference: Difference | None
    claimed: bool | str
    node_hours: float | None

    @property
    def speedup(self) -> Estimate:
        """How many times as fast as the smallest feasible cell."""
        return self.difference.estimate() if self.difference else Estimate(1.0)

    @property
    def nodes(self) -> int:
        """How many nodes the cell takes."""
        return Layout.parse(self.row.first.layout).nodes

    @property
    def efficiency(self) -> Estimate:
        """Speed-up over the ratio of processes."""
        return self.speedup.over(self.row.first.processes / self.base.first.processes)


def steps_of(block: Block, reader: DetailReader) -> list[Step]:
    """Compare each complete cell with the smallest complete one of the same axes; lines with most cells first."""
    lines: dict[str, list[Row]] = defaultdict(list)
    for row in block.rows:
        if row.complete:
            lines[line_of(row)].append(row)
    series = Series(run for row in block.rows for run in row.runs)
    pairs: list[_Pair] = []
    for rows in sorted(lines.values(), key=len, reverse=True):
        base = min(rows, key=lambda row: (row.first.processes, Layout.parse(row.first.layout).nodes))
        unit = _seconds_per_work(base)
        for row in rows:
            own = _seconds_per_work(row)
            if unit[0] != own[0]:
                continue
            if row is base:
                pairs.append(_Pair(row, base, None, None))
                continue
            way_out = in_turn(row, base, block.definition)
            pairs.append(_Pair(row, base, *in_order(welch(unit[1], own[1]), base, row, series, way_out)))
    claims = _claims(pairs)
    return [
        Step(pair.row, pair.base, pair.difference, claimed, node_hours(pair.row, reader))
        for pair, claimed in zip(pairs, claims, strict=True)
    ]


class _Pair(NamedTuple):
    """A cell and the smallest feasible one, their difference, and what the order of their runs forbids."""

    row: Row
    base: Row
    difference: Difference | None
    why: str | None


def _claims(pairs: list[_Pair]) -> list[bool | str]:
    """Judge each speed-up over the smallest feasible cell; the claims of a page hold together."""
    refused = [_refusal(pair.row, pair.base) or pair.why for pair in pairs]
    tested = [place for place, why in enumerate(refused) if why is None]
    values = [difference.p if (difference := pairs[place].difference) else None for place in tested]
    adjusted = dict(zip(tested, holm([1.0 if value is None else value for value in values]), strict=True))
    found: list[bool | str] = []
    for place, (row, base, difference, _) in enumerate(pairs):
        speedup = difference.estimate() if difference else None
        of_table = row.claimed if _is_baseline(base, row) else True
        found.append(refused[place] or not_shown(speedup, adjusted.get(place)) or of_table)
    return found


def _refusal(row: Row, base: Row) -> str | None:
    """Return why a speed-up may not be claimed, however large it is; where the table has the same one, as it does."""
    if row is base:
        return "the baseline"
    if _is_baseline(base, row):
        return None if row.adjusted_p is not None else str(row.claimed)
    return refusal(row, None if row.first.heterogeneous else base)


def _is_baseline(base: Row, row: Row) -> bool:
    """Whether the speed-up of the table is over this cell, and not over another one that the definition declares."""
    return row.baseline is not None and row.baseline.first is base.first


def _seconds_per_work(row: Row) -> tuple[bool, list[float]]:
    """Return the seconds of each run over its work, and whether the work is counted in samples.

    Where it is not, a process is taken to do as much in every layout under weak scaling, and all of them together under
    strong scaling.
    """
    counted = all(run.trained_samples for run in row.complete)
    weak = row.first.scaling == "weak"
    return counted, [
        run.seconds / (run.trained_samples if counted else run.processes if weak else 1)
        for run in row.complete
        if run.seconds
    ]


def node_hours(row: Row, reader: DetailReader) -> float | None:
    """Return nodes times hours of one run, from before its processes start until they have ended."""
    read = [details.seconds for run in row.complete[:MOST_READ] if (details := reader(run))]
    walls = [seconds.get("wall", seconds.get("total")) for seconds in read]
    known = [wall for wall in walls if wall is not None]
    return Layout.parse(row.first.layout).nodes * fmean(known) / _HOUR if known else None
