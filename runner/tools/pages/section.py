"""Lay out a block as a section of the page: the texts and plots for the template."""

from dataclasses import dataclass, field
from typing import NamedTuple

from runner.core.text import one_line
from runner.report.columns import lay_out, page_ratio, without_empty
from runner.report.rows import Row
from runner.report.run_summary import RunSummary
from runner.report.statistics import CONFIDENCE
from runner.report.table import to_table
from runner.tools.pages import run_plots, scaling_plots
from runner.tools.pages.style import Plot, can_draw, drawing
from runner.tools.pages.subject import Gap, Subject, slow_down

MOST_ROWS, MOST_RUNS = 100, 10
_TIMES = ("total_seconds", "train_seconds", "round_trip_seconds")
_ACCURACIES = (("accuracy", ""), ("best_accuracy", " best"))


class Line(NamedTuple):
    """A line of the table.

    `anchor` links to the list of its runs. `kind` is `base` for the baseline; otherwise `yes` or `no` says whether the
    speed-up may be claimed.
    """

    cells: list[str]
    anchor: str
    kind: str


class Cell(NamedTuple):
    """The runs of a cell.

    Each run has its failure and doubts, if any, and its value of every fact that differs between the runs.
    """

    anchor: str
    name: str
    commands: list[str]
    runs: list[tuple[RunSummary, str, list[str]]]
    more: int


@dataclass
class Section:
    """The texts and plots of a block."""

    anchor: str
    title: str
    common: list[str]
    claimed: list[str]
    refused: list[tuple[str, str]]
    head: list[str]
    lines: list[Line]
    published_head: list[str]
    published: list[list[str]]
    notes: list[str]
    shared: list[tuple[str, str]]
    differing: list[str]
    cells: list[Cell]
    rows_left_out: int
    plots: list[Plot] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    more_plots: bool = False


def section_of(subject: Subject, number: int) -> Section:
    """Lay out a block without its plots."""
    block, table = subject.block, to_table(subject.block)
    rows = block.rows[:MOST_ROWS]
    anchors = [f"b{number}c{place}" for place in range(len(rows))]
    head, lines = lay_out(block, rows, on_page=True)
    published_head, published = _published(subject)
    shared, differing = _provenance(subject, [run for row in rows for run in row.runs[:MOST_RUNS]])
    compared = [row for row in rows if row.claimed != "the baseline"]
    return Section(
        anchor=f"b{number}",
        title=table.title,
        common=table.common,
        claimed=[_claim(row) for row in compared if row.claimed is True],
        refused=[(row.first.cell, str(row.claimed)) for row in compared if row.claimed is not True],
        head=head,
        lines=[Line(line, anchor, _kind(row)) for line, row, anchor in zip(lines, rows, anchors, strict=True)],
        published_head=published_head,
        published=published,
        notes=table.notes + ([table.published.title] if table.published.lines else []),
        shared=shared,
        differing=differing,
        cells=[_cell(subject, row, anchor, differing) for row, anchor in zip(rows, anchors, strict=True)],
        rows_left_out=len(block.rows) - len(rows),
    )


def draw(subject: Subject, section: Section, most: int) -> None:
    """Add at most `most` plots to the section of a block, in order of importance. A missing plot is added as a gap."""
    if not can_draw():
        return
    scaling, runs = scaling_plots, run_plots
    makers = (scaling.speed_up, scaling.phases, runs.curves, scaling.equality, runs.bandwidth, runs.load)
    with drawing():
        for maker in makers:
            if len(section.plots) >= most:
                section.more_plots = True
                return
            made = maker(subject)
            drawn = made if isinstance(made, list) else [made]
            section.gaps += [gap for gap in drawn if isinstance(gap, Gap)]
            section.plots += [plot for plot in drawn if isinstance(plot, Plot)]
    section.more_plots = len(section.plots) > most
    del section.plots[most:]


def _kind(row: Row) -> str:
    return "yes" if row.claimed is True else "base" if row.claimed == "the baseline" else "no"


def _claim(row: Row) -> str:
    estimate, base = row.speedup, row.baseline
    if estimate is None or base is None:
        return row.first.cell
    between = ""
    if estimate.low is not None and estimate.high is not None:
        between = f", {CONFIDENCE} interval {page_ratio(estimate.low)} to {page_ratio(estimate.high)}"
    ratio = f"{page_ratio(estimate.value)} times as fast as {base.first.cell}{slow_down(estimate)}{between}"
    return f"{row.first.cell} is {ratio} (n = {len(row.complete)} and {len(base.complete)})"


def _published(subject: Subject) -> tuple[list[str], list[list[str]]]:
    axes = subject.block.axes
    lines = [
        [
            one_line(line["hardware"]) + (f", {one_line(line['where'])}" if line.get("where") else ""),
            *(one_line(line.get(axis, "")) for axis in ("layout", *axes)),
            next((f"{line[key]:g} s" for key in _TIMES if line.get(key)), ""),
            f"{line['computed_speedup']:.2f}" if line.get("computed_speedup") else "",
            f"{line['speedup']:g}" if line.get("speedup") else "",
            next((f"{line[key]:.2%}{best}" for key, best in _ACCURACIES if line.get(key)), ""),
            f"{loss[0]:.3g} to {loss[-1]:.3g} in {len(loss)} epochs" if (loss := line.get("val_loss")) else "",
        ]
        for line in subject.published
    ]
    names = ["hardware", "layout", *axes, "seconds", "speed-up by its own times", "speed-up as printed"]
    return without_empty([*names, "accuracy", "test loss"], lines)


def _provenance(subject: Subject, runs: list[RunSummary]) -> tuple[list[tuple[str, str]], list[str]]:
    each = [details.provenance for run in runs if (details := subject.reader(run))]
    values = {name: {facts[name] for facts in each} for name in (each[0] if each else ())}
    shared = [(name, *texts) for name, texts in values.items() if len(texts) == 1]
    return [(name, text) for name, text in shared if text], [name for name, texts in values.items() if len(texts) > 1]


def _cell(subject: Subject, row: Row, anchor: str, differing: list[str]) -> Cell:
    runs = []
    commands: list[str] = []
    for run in row.runs[:MOST_RUNS]:
        details = subject.reader(run)
        commands += details.command if details else ()
        differs = [details.provenance[name] if details else "not read" for name in differing]
        runs.append((run, "; ".join(([run.reason] if run.reason else []) + run.doubts), differs))
    return Cell(anchor, row.first.cell, list(dict.fromkeys(commands))[:4], runs, len(row.runs) - len(runs))
