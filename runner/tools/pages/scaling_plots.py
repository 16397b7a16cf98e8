"""Plots of cells: speed-up against the ideal, efficiency, where the time goes, and how far gradients are apart."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from runner.records.checked import Check
from runner.report.columns import page_estimate, page_seconds
from runner.report.rows import Row, processes
from runner.report.statistics import CONFIDENCE, Estimate
from runner.tools.pages import style
from runner.tools.pages.lines import Lines, Point, choose_lines, first_of, not_drawn, on_one_scale, points_of
from runner.tools.pages.style import GRID, MUTED, PAPER, SERIES, Plot
from runner.tools.pages.subject import Gap, Subject, is_slow_down, listing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 12
_MANY_PROCESSES = 8
_BAR_INCHES = 0.34
_LARGEST = 1e6
_FULL = 0.9
_LEAST = 1e-10
"""Where equal bit by bit is drawn."""
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
"""Of each phase its name, colour and hatch."""


def speed_up(subject: Subject) -> Plot | Gap:
    """Draw speed-up over processes beside the ideal line; over cells where all have as many processes."""
    title = "Speed-up"
    rows = [row for row in subject.block.rows if row.speedup and row.seconds]
    if not _compared(rows):
        return Gap(title, _why_no_speedup(subject, rows))
    name, best = subject.plot("speed-up"), _best(rows)
    conclusion = _conclusion(rows, best)
    if len({row.first.processes for row in rows}) == 1:
        shown = first_of(rows, lambda row: (row is not best, row.claimed is not True), 2 * MOST_BARS)
        left_out = [row.first.cell for row in rows if not any(row is other for other in shown)]
        return Plot(name, title, conclusion + not_drawn(left_out, "cell"), _by_cell(shown))
    lines = choose_lines(points_of(rows, lambda row: row.speedup), best.first.cell)
    said = [(line["processes"], line.get("computed_speedup") or line.get("speedup")) for line in subject.published]
    published = [(count, speedup) for count, speedup in said if count and speedup]
    caption = conclusion + not_drawn(lines.left_out, "line")
    if len(lines.bases) > 1:
        caption = f"{caption} Here each speed-up is times the processes of its baseline, so that all have one ideal."
    if published and lines.bases != {1}:
        caption, published = f"{caption} The published speed-ups are over one process, and in the table.", []
    return Plot(name, title, caption, _draw_speed_up(lines, published))


def _draw_speed_up(lines: Lines, published: list[tuple[int, float]]) -> Figure:
    """Draw speed-ups over their baselines, the ideal ones, and published ones."""
    over = f"over {processes(min(lines.bases))}" if len(lines.bases) == 1 else "x baseline's processes"
    lines = on_one_scale(lines)
    (base,), points = lines.bases, lines.points
    figure, axes = style.axes()
    _over_processes(axes, lines, 1.0)
    most = max([point.processes for point in points] + [count for count, _ in published])
    if published:
        axes.plot(*zip(*published, strict=True), "D", mfc="none", mec=MUTED, ms=6, label="published", zorder=2)
    axes.plot([base, most], [1, most / base], color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label="ideal", zorder=1)
    _scale_processes(axes, points, most)
    values = [_bounded(point.estimate.value) for point in points] + [_bounded(value) for _, value in published]
    top = max(most / base, *values)
    highest = max(_bounded(point.estimate.high or 0.0) for point in points)
    top = max(top, min(highest, 1.6 * top)) * 1.06  # an interval many times as wide is cut, and the caption has it
    if most > _MANY_PROCESSES:
        style.logarithmic(axes, "y", 2)
        axes.set_ylim(max(min(1.0, *values) * 0.8, top / 1e5), top)
    else:
        axes.set_ylim(0, top)
    axes.set_ylabel(f"speed-up {over}")
    style.finish(figure, axes)
    return figure


def efficiency(subject: Subject) -> Plot | None:
    """Draw efficiency over processes; None where there is no more than one number of processes."""
    rows = [row for row in subject.block.rows if row.efficiency and row.seconds]
    if len({row.first.processes for row in rows}) < 2:  # a line needs two points
        return None
    worst = min(rows, key=lambda row: row.efficiency.value if row.efficiency else 0.0)
    lines = choose_lines(points_of(rows, lambda row: row.efficiency), worst.first.cell)
    figure, axes = style.axes()
    _over_processes(axes, lines, 100.0)
    axes.axhline(100, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label="ideal", zorder=1)
    _scale_processes(axes, lines.points, max(point.processes for point in lines.points))
    top = max(1.0, *(_bounded(point.estimate.value) for point in lines.points))
    highest = max(_bounded(point.estimate.high or 0.0) for point in lines.points)
    axes.set_ylim(0, 100 * max(1.12, 1.05 * max(top, min(highest, 2 * top))))  # an interval of many times it is cut
    axes.set_ylabel("efficiency in %")
    style.finish(figure, axes)
    caption = _what_is_lost(worst) + not_drawn(lines.left_out, "line")
    return Plot(subject.plot("efficiency"), "Efficiency", caption, figure)


def _what_is_lost(worst: Row) -> str:
    estimate, base = worst.efficiency, worst.baseline
    if estimate is None or base is None:
        return ""
    has_ends = estimate.low and estimate.high
    between = f" ({CONFIDENCE}: {estimate.low:.0%} to {estimate.high:.0%})" if has_ends else ""
    verdict = "Nearly all of each process is used" if estimate.value >= _FULL else f"{1 - estimate.value:.0%} is lost"
    serial = worst.serial_fraction
    as_if = f", as if {serial:.0%} of the work were serial" if serial is not None and 0 < serial <= 1 else ""
    baseline = "one alone" if base.first.processes == 1 else f"one of {base.first.cell}"
    return (
        f"With {worst.first.cell}, a process does {estimate.value:.0%}{between} of the work that {baseline} does. "
        f"{verdict}{as_if}."
    )


def phases(subject: Subject) -> Plot | Gap:
    """Draw the seconds of each phase as a stacked bar for each cell: means over its complete runs."""
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
    names = [style.name(row.first.cell) for row, _ in bars]
    axes.set_yticks(range(len(bars)), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("seconds of a run, mean")
    style.finish(figure, axes, style.room_for(names))
    return Plot(subject.plot("phases"), title, _where_time_goes(subject, bars), figure)


def _shares(subject: Subject, row: Row) -> dict[str, float]:
    """Average the seconds of each phase over a cell's runs; what no phase covers is the rest."""
    each = [details.seconds for run in row.complete[:MOST_BARS] if (details := subject.reader(run))]
    found = []
    for seconds in each:
        named = {phase: seconds[phase] for phase in _PHASES if phase in seconds}
        total = seconds.get("total", seconds.get("wall", 0.0) if named else 0.0)  # scripts tell no total
        rest = {"rest": max(0.0, total - sum(named.values())), "launch": max(0.0, seconds.get("wall", 0.0) - total)}
        found.append({**named, **(rest if total else {})})
    return {phase: fmean(seconds.get(phase, 0.0) for seconds in found) for phase in _PHASES} if any(found) else {}


def _where_time_goes(subject: Subject, bars: list[tuple[Row, dict[str, float]]]) -> str:
    timed = "train" if any(shares.get("train") for _, shares in bars) else "rest"
    words = []
    for row, shares in (bars[0], bars[-1])[: len(bars)]:
        total = sum(shares.values()) or 1.0
        largest = max((phase for phase in shares if phase != timed), key=lambda phase: shares[phase])
        words.append(
            f"{row.first.cell}: {_PHASES[timed][0]} is {shares.get(timed, 0.0) / total:.0%} of "
            f"{page_seconds(total)} s, {_PHASES[largest][0]} {shares[largest] / total:.0%}"
        )
    left_out = len(subject.measured) - len(bars)
    more = f" {left_out} more cells are in the table." if left_out else ""
    compared = subject.block.first.measure == "train_seconds" and timed == "train"
    what = "Only training is compared." if compared else ""
    return f"{'; '.join(words)}. {what}{more}".strip()


def _over_processes(axes: Axes, lines: Lines, factor: float) -> None:
    """Draw estimates with their intervals over the number of processes, side by side where they have as many."""
    for number, (name, own) in enumerate(lines.drawn.items()):
        shift = 1 + 0.025 * (number - (len(lines.drawn) - 1) / 2)
        y, below, above = zip(*(_bar(point.estimate, factor) for point in own), strict=True)
        label, look = style.name(name), style.series(number)
        x = [point.processes * shift for point in own]
        axes.errorbar(x, y, [below, above], ecolor=look["color"], elinewidth=1.1, capsize=3, label=label, **look)


def _scale_processes(axes: Axes, points: list[Point], most: int) -> None:
    counts = sorted({point.processes for point in points})
    if most > _MANY_PROCESSES:
        axes.set_xscale("log", base=2)
        counts = [count for count in counts if count & (count - 1) == 0] or counts
    axes.set_xticks(counts[:MOST_BARS], [str(count) for count in counts[:MOST_BARS]])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("processes")


def _by_cell(shown: list[Row]) -> Figure:
    """Draw the speed-up of each cell as a point with its interval, one line a cell."""
    figure, axes = style.axes(1.0 + 0.28 * len(shown))
    for place, row in enumerate(shown):
        if row.speedup is None:
            continue
        value, below, above = _bar(row.speedup)
        look = {**style.series(0 if row.claimed is True else 1), "linestyle": "none"}
        axes.errorbar(
            [value], [place], xerr=[[below], [above]], ecolor=look["color"], elinewidth=1.2, capsize=3, **look
        )
    axes.axvline(1, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    names = [style.name(row.first.cell) for row in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.invert_yaxis()
    values = [_bounded(row.speedup.value) for row in shown if row.speedup]
    highest = max(_bounded(row.speedup.high or row.speedup.value) for row in shown if row.speedup)
    axes.set_xlim(0, max(1.15, min(highest, 2 * max(values))) * 1.05)
    axes.set_xlabel("speed-up over the baseline (circle: claimed, square: not)")
    style.finish(figure, axes, style.room_for(names))
    return figure


def _bar(estimate: Estimate, factor: float = 1.0) -> tuple[float, float, float]:
    """Return a value, and how far its interval goes down and up, within what can be drawn."""
    value = _bounded(estimate.value) * factor
    low, high = (_bounded(end or estimate.value) * factor for end in (estimate.low, estimate.high))
    return value, max(0.0, value - low), max(0.0, high - value)


def _bounded(value: float) -> float:
    return min(max(value, 1 / _LARGEST), _LARGEST)


def _compared(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.baseline and not row.is_baseline and row.speedup]


def _best(rows: list[Row]) -> Row:
    """Return the row of the largest speed-up that may be claimed, or else of the largest."""
    others = _compared(rows)
    claimed = [row for row in others if row.claimed is True]
    return max(claimed or others, key=lambda row: row.speedup.value if row.speedup else 0.0)


def _conclusion(rows: list[Row], best: Row) -> str:
    """Return which speed-ups may be claimed, and of the largest other one why not."""
    others, base, estimate = _compared(rows), best.baseline, best.speedup
    if base is None or estimate is None:
        return ""
    claimed = [row for row in others if row.claimed is True]
    ratio = page_estimate(estimate) + ("" if estimate.high else " (no interval)")
    if not claimed:
        count = f"none of {len(others)} speed-ups" if len(others) > 1 else "no speed-up"
        return f"{count.capitalize()} may be claimed. {best.first.cell}: {ratio}; {best.claimed}."
    slower = ", a slow-down" if is_slow_down(estimate) else ""
    words = f"{best.first.cell} is {ratio} times as fast as {base.first.cell}{slower}"
    ideal = best.first.processes / base.first.processes
    words += f", and this may be claimed; ideal is {ideal:g}" if ideal > 1 else ", and this may be claimed"
    rest = len(others) - len(claimed)
    more = f" {rest} further may not be claimed; the table says why." if rest else ""
    return f"{words}.{more}"


def _why_no_speedup(subject: Subject, rows: list[Row]) -> str:
    if not subject.measured:
        return "no run is complete"
    if len(subject.block.rows) == 1:
        return f"there is one cell, {subject.block.first.cell}, and nothing to compare it with"
    others = (row.claimed for row in subject.measured if row not in rows)
    reasons = sorted({str(claimed) for claimed in others if claimed not in (True, "the baseline")})
    return listing(reasons[:3]) if reasons else "no cell has a complete baseline"


def equality(subject: Subject) -> Plot | None:
    """Draw the distances by step, beside what another order of the ranks gives; None without a check that has them."""
    checks: dict[str, Check] = subject.block.definition.get("checked", {})
    counts = {row.first.processes for row in subject.block.rows}
    known = [(number, check) for number, check in sorted(checks.items()) if int(number) in counts and check.off]
    if not known:
        return None
    figure, axes = style.axes()
    said = []
    for place, (number, check) in enumerate(known[: style.MOST_SERIES]):
        off = [max(value, _LEAST) for value in check.off]
        axes.plot(range(1, len(off) + 1), off, label=f"{number} processes", **style.series(place))
        said.append(f"{number} processes: {check.off[0]:.1e}")
        if check.order:
            said[-1] += f", and {check.order:.1e} by another order of them"
            axes.axhline(check.order, color=MUTED, linewidth=1.1, linestyle=(0, (1, 1.5)))
    style.logarithmic(axes, "y", 10)
    axes.set_xlabel("step")
    axes.set_ylabel("difference of the gradients, relative")
    axes.set_xticks(range(1, max(len(check.off) for _, check in known) + 1))
    style.finish(figure, axes)
    caption = f"The first gradient differs from that of one process with all batches by: {'; '.join(said)}."
    return Plot(subject.plot("equality"), "Do several processes train what one trains?", caption, figure)
