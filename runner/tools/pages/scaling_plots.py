"""Plot cells: speed-up, time per phase, and differences of gradients."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING

from runner.core.layout import Layout
from runner.records.checked import Check
from runner.report.columns import page_estimate, page_seconds
from runner.report.rows import Row, processes
from runner.report.statistics import Estimate
from runner.tools.pages import style
from runner.tools.pages.style import GRID, MUTED, PAPER, SERIES, Plot
from runner.tools.pages.subject import Gap, Subject, listing, slow_down

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BARS = 12
MOST_CELLS = 24
_MANY_PROCESSES = 8
_BAR_INCHES = 0.34
_LARGEST = 1e6
_LEAST = 1e-10
"""The value at which a difference of zero is drawn on the logarithmic axis."""
_PHASES: dict[str, tuple[str, str, str]] = {
    "launch": ("start and end", MUTED, ""),
    "init": ("rendezvous", SERIES[1], "\\\\"),
    "setup": ("setup", SERIES[2], ""),
    "data": ("data", SERIES[3], "||"),
    "warmup": ("warm-up", SERIES[4], "--"),
    "train": ("training", SERIES[0], ""),
    "eval": ("tests", SERIES[5], "//"),
    "rest": ("rest of the program", GRID, ""),
}


def speed_up(subject: Subject) -> Plot | Gap:
    """Draw speed-up over processes with the ideal line. If the cells have no common ideal, draw cell by cell.

    Cells have no common ideal if all have the same number of processes, or if their baselines differ in this number. If
    there are too many lines or cells, the claimed speed-ups are drawn first, then the largest of the others.
    """
    title = "Speed-up"
    rows = [row for row in subject.block.rows if row.speedup and row.seconds and row.baseline]
    ranked = sorted(rows, key=lambda row: (row.is_baseline, row.claimed is not True, -_value(row)))
    if not ranked or ranked[0].is_baseline:
        return Gap(title, _why_no_speedup(subject, rows))
    caption = _conclusion([row for row in ranked if not row.is_baseline])
    bases = {row.baseline.first.processes for row in rows if row.baseline}
    if len(bases) > 1 or len({row.first.processes for row in rows}) == 1:
        figure, left_out = _by_cell(ranked[:MOST_CELLS]), len(ranked[MOST_CELLS:])
        caption += " Circles may be claimed, squares may not."
    else:
        lines = list(_lines(ranked).items())
        left_out = len(lines[style.MOST_SERIES :])
        published = [
            (line["processes"], speedup)
            for line in subject.published
            if line["processes"] and (speedup := line.get("computed_speedup") or line.get("speedup"))
        ]
        figure = _by_processes(dict(lines[: style.MOST_SERIES]), bases.pop(), published)
    caption += f" {left_out} more in the table." if left_out else ""
    return Plot(subject.plot("speed-up"), title, caption, figure)


def _value(row: Row) -> float:
    return row.speedup.value if row.speedup else 0.0


def _lines(rows: list[Row]) -> dict[str, list[Row]]:
    lines: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        lines[" ".join(str(value) for value in row.first.axes.values()) or "measured"].append(row)
    if all(len({row.first.processes for row in group}) == len(group) for group in lines.values()):
        return lines
    split: dict[str, list[Row]] = defaultdict(list)
    for name, group in lines.items():
        for row in group:
            split[f"{name}, nodes: {Layout.parse(row.first.layout).nodes}"].append(row)
    return split


def _by_processes(lines: dict[str, list[Row]], base: int, published: list[tuple[int, float]]) -> Figure:
    figure, axes = style.axes()
    for number, (name, unsorted) in enumerate(lines.items()):
        group = sorted(unsorted, key=lambda row: row.first.processes)
        shift = 1 + 0.025 * (number - (len(lines) - 1) / 2)
        y, below, above = zip(*(_bar(row) for row in group), strict=True)
        label, look = style.name(name), style.series(number)
        x = [row.first.processes * shift for row in group]
        axes.errorbar(x, y, [below, above], ecolor=look["color"], elinewidth=1.1, capsize=3, label=label, **look)
    rows = [row for group in lines.values() for row in group]
    published = published if base == 1 else []  # published speed-ups are over one process
    if published:
        axes.plot(*zip(*published, strict=True), "D", mfc="none", mec=MUTED, ms=6, label="published", zorder=2)
    most = max([row.first.processes for row in rows] + [count for count, _ in published])
    axes.plot([base, most], [1, most / base], color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label="ideal", zorder=1)
    values = [_bounded(value) for value in [*map(_value, rows), *(value for _, value in published)]]
    top = max(most / base, *values)
    top = max(top, min(_highest(rows), 1.6 * top)) * 1.06  # cut very wide intervals
    counts = sorted({row.first.processes for row in rows})
    if most > _MANY_PROCESSES:
        axes.set_xscale("log", base=2)
        counts = [count for count in counts if count & (count - 1) == 0] or counts
        style.logarithmic(axes, "y", 2)
        axes.set_ylim(max(min(1.0, *values) * 0.8, top / 1e5), top)
    else:
        axes.set_ylim(0, top)
    axes.set_xticks(counts[:MOST_BARS], [str(count) for count in counts[:MOST_BARS]])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("processes")
    axes.set_ylabel(f"speed-up over {processes(base)}")
    style.finish(figure, axes)
    return figure


def _by_cell(rows: list[Row]) -> Figure:
    figure, axes = style.axes(1.0 + 0.28 * len(rows))
    for place, row in enumerate(rows):
        value, below, above = _bar(row)
        look = {**style.series(0 if row.claimed is True else 1), "linestyle": "none"}
        axes.errorbar(
            [value], [place], xerr=[[below], [above]], ecolor=look["color"], elinewidth=1.2, capsize=3, **look
        )
    axes.axvline(1, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    axes.set_yticks(range(len(rows)), [style.name(row.first.cell) for row in rows])
    axes.invert_yaxis()
    most = max(_bounded(_value(row)) for row in rows)
    axes.set_xlim(0, max(1.15, min(_highest(rows), 2 * most)) * 1.05)
    axes.set_xlabel("speed-up over the baseline")
    style.finish(figure, axes)
    return figure


def _bar(row: Row) -> tuple[float, float, float]:
    estimate = row.speedup or Estimate(0.0)
    value = _bounded(estimate.value)
    low, high = (_bounded(end or estimate.value) for end in (estimate.low, estimate.high))
    return value, max(0.0, value - low), max(0.0, high - value)


def _bounded(value: float) -> float:
    return min(max(value, 1 / _LARGEST), _LARGEST)


def _highest(rows: list[Row]) -> float:
    return max(value + above for value, _, above in map(_bar, rows))


def _conclusion(ranked: list[Row]) -> str:
    best, base = ranked[0], ranked[0].baseline
    if base is None or best.speedup is None:
        return ""
    ratio = page_estimate(best.speedup) + ("" if best.speedup.high else " (no interval)")
    rest = sum(row.claimed is not True for row in ranked)
    if rest == len(ranked):
        count = f"None of {rest} speed-ups" if rest > 1 else "No speed-up"
        return f"{count} may be claimed. {best.first.cell}: {ratio}; {best.claimed}."
    words = f"{best.first.cell} is {ratio} times as fast as {base.first.cell}{slow_down(best.speedup)}"
    ideal = best.first.processes / base.first.processes
    words += ", and this may be claimed" + (f"; ideal is {ideal:g}." if ideal > 1 else ".")
    return words + (f" {rest} others may not be claimed; see the table for the reasons." if rest else "")


def _why_no_speedup(subject: Subject, rows: list[Row]) -> str:
    if not subject.measured:
        return "no run is complete"
    if len(subject.block.rows) == 1:
        return f"there is nothing to compare with the only cell, {subject.block.first.cell}"
    others = (row.claimed for row in subject.measured if row not in rows)
    reasons = sorted({str(claimed) for claimed in others if claimed not in (True, "the baseline")})
    return listing(reasons[:3]) if reasons else "no cell has a complete baseline"


def phases(subject: Subject) -> Plot | Gap:
    """Draw a stacked bar for each cell: the mean seconds of each phase over the complete runs."""
    title = "Time per phase"
    bars = [(row, shares) for row in subject.measured[:MOST_BARS] if (shares := _shares(subject, row))]
    if not bars:
        return Gap(title, "no complete run reports phases")
    figure, axes = style.axes(0.6 + _BAR_INCHES * len(bars))
    left = [0.0] * len(bars)
    for phase, (label, colour, hatch) in _PHASES.items():
        widths = [shares.get(phase, 0.0) for _, shares in bars]
        if any(widths):
            axes.barh(
                range(len(bars)), widths, 0.62, left, color=colour, label=label, hatch=hatch, ec=PAPER, linewidth=0.6
            )
            left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(bars)), [style.name(row.first.cell) for row, _ in bars])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("seconds of a run, mean")
    style.finish(figure, axes)
    return Plot(subject.plot("phases"), title, _where_time_goes(subject, bars), figure)


def _shares(subject: Subject, row: Row) -> dict[str, float]:
    each = [details.seconds for run in row.complete[:MOST_BARS] if (details := subject.reader(run))]
    runs = []
    for seconds in each:
        named = {phase: seconds[phase] for phase in _PHASES if phase in seconds}
        total = seconds.get("total", seconds.get("wall", 0.0) if named else 0.0)  # scripts report no total
        rest = {"rest": max(0.0, total - sum(named.values())), "launch": max(0.0, seconds.get("wall", 0.0) - total)}
        runs.append({**named, **(rest if total else {})})
    return {phase: fmean(seconds.get(phase, 0.0) for seconds in runs) for phase in _PHASES} if any(runs) else {}


def _where_time_goes(subject: Subject, bars: list[tuple[Row, dict[str, float]]]) -> str:
    timed = "train" if any(shares["train"] for _, shares in bars) else "rest"
    words = []
    for row, shares in (bars[0], bars[-1])[: len(bars)]:
        total = sum(shares.values()) or 1.0
        largest = max((phase for phase in shares if phase != timed), key=lambda phase: shares[phase])
        words.append(
            f"{row.first.cell}: {_PHASES[timed][0]} is {shares[timed] / total:.0%} of "
            f"{page_seconds(total)} s, {_PHASES[largest][0]} {shares[largest] / total:.0%}"
        )
    left_out = len(subject.measured) - len(bars)
    more = f" {left_out} more in the table." if left_out else ""
    compared = subject.block.first.measure == "train_seconds" and timed == "train"
    return f"{'; '.join(words)}.{' Only training is compared.' if compared else ''}{more}"


def equality(subject: Subject) -> Plot | None:
    """Draw how far the gradients of each step differ from the gradients of one process.

    Dotted lines show how far they differ if only the order of the ranks changes. Returns None unless `runner check`
    measured the differences.
    """
    checks: dict[str, Check] = subject.block.definition.get("checked", {})
    counts = {row.first.processes for row in subject.block.rows}
    measured = [(number, check) for number, check in sorted(checks.items()) if int(number) in counts and check.off]
    if not measured:
        return None
    figure, axes = style.axes()
    words = []
    for place, (number, check) in enumerate(measured[: style.MOST_SERIES]):
        off = [max(value, _LEAST) for value in check.off]
        axes.plot(range(1, len(off) + 1), off, label=f"{number} processes", **style.series(place))
        words.append(f"{number} processes: {check.off[0]:.1e}")
        if check.order:
            words[-1] += f" ({check.order:.1e} from another order of the ranks)"
            axes.axhline(check.order, color=MUTED, linewidth=1.1, linestyle=(0, (1, 1.5)))
    style.logarithmic(axes, "y", 10)
    axes.set_xlabel("step")
    axes.set_ylabel("relative difference of the gradients")
    axes.set_xticks(range(1, max(len(check.off) for _, check in measured) + 1))
    style.finish(figure, axes)
    caption = f"Relative difference between the first gradient and that of one process: {'; '.join(words)}."
    return Plot(subject.plot("equality"), "Do several processes train the same as one?", caption, figure)
