"""Block -> Section: everything that a page says of it, as texts and plots for the template."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from runner.core.text import one_line
from runner.report.columns import lay_out, page_ratio, without_empty
from runner.report.rows import Row
from runner.report.run_summary import RunSummary
from runner.report.statistics import CONFIDENCE
from runner.report.table import to_table
from runner.tools.pages import run_plots, scaling_plots
from runner.tools.pages.style import Plot, can_draw, drawing
from runner.tools.pages.subject import Gap, Subject, is_slow_down


class Line(NamedTuple):
    """One line of the table: the texts of its cells, where its runs are listed, and the last cell's kind."""

    cells: list[str]
    anchor: str
    kind: str


class ListedRun(NamedTuple):
    """One run in the list of runs: why nothing may rest on it, and what differs between runs."""

    run: RunSummary
    reason: str
    own: list[str]


class Cell(NamedTuple):
    """The runs of one cell."""

    anchor: str
    name: str
    commands: list[str]
    runs: list[ListedRun]
    more: int


@dataclass
class Section:
    """What a page says of one block."""

    anchor: str
    title: str
    common: list[str]
    claimed: list[str]
    refused: list[tuple[str, str]]
    slow_downs: int
    head: list[str]
    lines: list[Line]
    published_head: list[str]
    published: list[list[str]]
    notes: list[str]
    shared: list[tuple[str, str]]
    differing: list[str]
    cells: list[Cell]
    plots: list[Plot] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    runs: int = 0
    rows_left_out: int = 0
    more_plots: bool = False


class Size(NamedTuple):
    """How many rows of a block are shown, and how many runs of each cell are listed."""

    rows: int
    runs: int


def section_of(subject: Subject, number: int, size: Size) -> Section:
    """Lay out a block, without its plots."""
    block, table = subject.block, to_table(subject.block)
    anchor = f"b{number}"
    rows = block.rows[: size.rows]
    names = [f"{anchor}c{place}" for place in range(len(rows))]
    head, lines = lay_out(block, rows, on_page=True)
    shared, differing = _provenance(subject, [run for row in rows for run in row.runs[: size.runs]])
    compared = [row for row in rows if row.claimed != "the baseline"]
    return Section(
        anchor=anchor,
        title=table.title,
        common=table.common,
        claimed=[_claim(row) for row in compared if row.claimed is True],
        slow_downs=sum(is_slow_down(row.speedup) for row in compared if row.claimed is True),
        refused=[(row.first.cell, str(row.claimed)) for row in compared if row.claimed is not True],
        head=head,
        lines=[Line(line, name, _kind(row)) for line, row, name in zip(lines, rows, names, strict=True)],
        **_published(subject),
        notes=table.notes + ([table.published.title] if table.published.lines else []),
        shared=shared,
        differing=differing,
        cells=[_cell(subject, row, name, differing, size.runs) for row, name in zip(rows, names, strict=True)],
        runs=sum(len(row.runs) for row in block.rows),
        rows_left_out=len(block.rows) - len(rows),
    )


def draw(subject: Subject, section: Section, most: int) -> None:
    """Draw at most so many plots of a block, what matters most first; what cannot be drawn is a gap that says why."""
    makers: list[Callable[[Subject], Plot | Gap | list[Plot | Gap] | None]] = [
        scaling_plots.speed_up,
        scaling_plots.efficiency,
        scaling_plots.phases,
        run_plots.curves,
        scaling_plots.equality,
        run_plots.bandwidth,
        run_plots.load,
    ]
    if not can_draw():
        return
    with drawing():
        for maker in makers:
            if len(section.plots) >= most:
                section.more_plots = True
                return
            made = maker(subject)
            for found in made if isinstance(made, list) else [made]:
                if isinstance(found, Plot) and len(section.plots) < most:
                    section.plots.append(found)
                elif isinstance(found, Gap):
                    section.gaps.append(found)
                else:
                    section.more_plots = section.more_plots or found is not None


def _kind(row: Row) -> str:
    return "yes" if row.claimed is True else "base" if row.claimed == "the baseline" else "no"


def _claim(row: Row) -> str:
    """Return a sentence of what may be claimed."""
    if row.speedup is None or row.baseline is None:
        return row.first.cell
    estimate, between = row.speedup, ""
    if estimate.low is not None and estimate.high is not None:
        between = f", {CONFIDENCE} interval {page_ratio(estimate.low)} to {page_ratio(estimate.high)}"
    n = f"n = {len(row.complete)} and {len(row.baseline.complete)}"
    slower = ", a slow-down" if is_slow_down(estimate) else ""
    cell, ratio, base = row.first.cell, page_ratio(estimate.value), row.baseline.first.cell
    return f"{cell} is {ratio} times as fast as {base}{slower}{between} ({n})"


def _published(subject: Subject) -> dict[str, Any]:
    """Lay out the published rows, each with its own hardware."""
    axes = subject.block.axes
    lines = [
        [
            one_line(line["hardware"]) + (f", {one_line(line['where'])}" if line.get("where") else ""),
            one_line(line.get("layout", "")),
            *(one_line(line.get(axis, "")) for axis in axes),
            next((f"{line[key]:g} s" for key in _TIMES if line.get(key)), ""),
            f"{line['computed_speedup']:.2f}" if line.get("computed_speedup") else "",
            f"{line['speedup']:g}" if line.get("speedup") else "",
            next((f"{line[key]:.2%}{best}" for key, best in _ACCURACIES if line.get(key)), ""),
            f"{loss[0]:.3g} to {loss[-1]:.3g} in {len(loss)} epochs" if (loss := line.get("val_loss")) else "",
        ]
        for line in subject.published
    ]
    names = ["hardware", "layout", *axes, "seconds", "speed-up by its own times", "speed-up as printed"]
    head, lines = without_empty([*names, "accuracy", "test loss"], lines)
    return {"published_head": head, "published": lines}


_TIMES = ("total_seconds", "train_seconds", "round_trip_seconds")
_ACCURACIES = (("accuracy", ""), ("best_accuracy", " best"))


def _provenance(subject: Subject, runs: list[RunSummary]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what all runs share, and the names of what differs between them."""
    known = [details.provenance for run in runs if (details := subject.reader(run))]
    names = list(dict.fromkeys(name for facts in known for name in facts))
    values = {name: {facts.get(name, "") for facts in known} for name in names}
    shared = [(name, next(iter(values[name]))) for name in names if len(values[name]) == 1]
    return [(name, value) for name, value in shared if value], [name for name in names if len(values[name]) > 1]


def _cell(subject: Subject, row: Row, anchor: str, differing: list[str], most: int) -> Cell:
    runs: list[ListedRun] = []
    commands: list[str] = []
    for run in row.runs[:most]:
        details = subject.reader(run)
        commands += details.command if details else ()
        own = [details.provenance.get(name, "") if details else "not read" for name in differing]
        runs.append(ListedRun(run, "; ".join(([run.reason] if run.reason else []) + run.doubts), own))
    return Cell(anchor, row.first.cell, list(dict.fromkeys(commands))[:4], runs, len(row.runs) - len(runs))
