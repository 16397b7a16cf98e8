"""Block -> rows over the smallest complete cell of the same axes, and whether the speed-up over that may be claimed."""

from collections import defaultdict
from dataclasses import replace
from statistics import fmean

from runner.core.layout import Layout
from runner.report.claims import incomparable, refusal
from runner.report.compare import over_baseline, with_claims
from runner.report.order import Series
from runner.report.rows import Block, Row
from runner.report.statistics import Estimate
from runner.tools.pages.details import DetailReader
from runner.tools.pages.lines import line_of

MOST_READ = 12
"""Runs of a cell whose records are read for their node-hours."""
_HOUR = 3600.0


def steps_of(block: Block) -> list[Row]:
    """Compare each complete cell with the smallest complete one of the same axes; lines with most cells first.

    The baseline of each row is that smallest cell, and the claims of all rows hold together.
    """
    lines: dict[str, list[Row]] = defaultdict(list)
    for row in block.rows:
        if row.complete:
            lines[line_of(row)].append(row)
    series = Series(run for row in block.rows for run in row.runs)
    pairs: list[tuple[Row, Row]] = []
    for rows in sorted(lines.values(), key=len, reverse=True):
        base = min(rows, key=lambda row: (row.first.processes, nodes_of(row)))
        # Where the work of one cell is counted in samples and that of the other is not, nothing compares them.
        pairs += [(row, base) for row in rows if _is_counted(row) == _is_counted(base)]
    steps = with_claims([_step(row, base, series, block) for row, base in pairs])
    return [
        # The table may refuse a speed-up that it shows too, because of its other rows.
        replace(step, claimed=row.claimed) if step.claimed is True and _is_over(row, base) else step
        for step, (row, base) in zip(steps, pairs, strict=True)
    ]


def _step(row: Row, base: Row, series: Series, block: Block) -> Row:
    """Compare a cell with the smallest one; the table has the same speed-up if that is its baseline too."""
    if row is base:
        speedup = None if incomparable(row, base) else Estimate(1.0)
        found = replace(row, baseline=base, speedup=speedup, claimed="the baseline")
        return replace(found, difference=None, adjusted_p=None)
    if _is_over(row, base):
        return row if row.adjusted_p is None else replace(row, claimed=True)
    step = over_baseline(row, base, series, block.definition)
    return replace(step, claimed=refusal(row, None) or True) if row.first.heterogeneous else step


def _is_over(row: Row, base: Row) -> bool:
    return row.baseline is not None and row.baseline.first is base.first


def _is_counted(row: Row) -> bool:
    return all(run.trained_samples for run in row.complete)


def nodes_of(row: Row) -> int:
    """Return how many nodes a cell takes."""
    return Layout.parse(row.first.layout).nodes


def node_hours(row: Row, reader: DetailReader) -> float | None:
    """Return nodes times hours of one run, from before its processes start until they have ended."""
    read = [details.seconds for run in row.complete[:MOST_READ] if (details := reader(run))]
    walls = [seconds.get("wall", seconds.get("total")) for seconds in read]
    known = [wall for wall in walls if wall is not None]
    return nodes_of(row) * fmean(known) / _HOUR if known else None
