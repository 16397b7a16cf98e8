"""Rows -> the lines of a plot over processes, and which of them are drawn where there are too many."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from runner.core.layout import Layout
from runner.report.rows import Row
from runner.report.statistics import Estimate
from runner.tools.pages import style
from runner.tools.pages.subject import listing

MOST_NAMED = 6
"""Names of what is not drawn that a caption lists."""
_Thing = TypeVar("_Thing")


class Point(NamedTuple):
    """One cell in a plot over processes; `base` are the processes of the baseline over which it may be `claimed`."""

    cell: str
    line: str
    processes: int
    nodes: int
    estimate: Estimate
    base: int = 1
    claimed: bool = False


class Lines(NamedTuple):
    """The lines of a plot, each with its name, and the names of those for which it has no look."""

    drawn: dict[str, list[Point]]
    left_out: list[str]

    @property
    def points(self) -> list[Point]:
        """The points that are drawn."""
        return [point for own in self.drawn.values() for point in own]

    @property
    def bases(self) -> set[int]:
        """The processes of their baselines."""
        return {point.base for point in self.points}


def points_of(rows: Iterable[Row], estimate_of: Callable[[Row], Estimate | None]) -> list[Point]:
    """Place an estimate of each row that has it in a plot over processes."""
    found = []
    for row in rows:
        estimate, run = estimate_of(row), row.first
        if row.baseline and estimate:
            nodes, base = Layout.parse(run.layout).nodes, row.baseline.first.processes
            claimed = row.claimed is True
            found.append(Point(run.cell, line_of(row), run.processes, nodes, estimate, base, claimed))
    return found


def line_of(row: Row) -> str:
    """Name the line that a row belongs to: its axes without the layout."""
    return " ".join(str(value) for value in row.first.axes.values()) or "measured"


def choose_lines(points: list[Point], cell: str) -> Lines:
    """Group points; of too many lines, draw that of the cell which the caption names, and those with a claim first."""
    lines = _grouped(points)

    def rank(name: str) -> tuple[bool, bool]:
        own = lines[name]
        return not any(point.cell == cell for point in own), not any(point.claimed for point in own)

    names = first_of(list(lines), rank, style.MOST_SERIES)
    return Lines({name: lines[name] for name in names}, [name for name in lines if name not in names])


def on_one_scale(lines: Lines) -> Lines:
    """Return speed-ups that have one ideal: over unlike numbers of processes, each is times those of its baseline."""
    if len(lines.bases) == 1:
        return lines
    scaled = {
        name: [point._replace(estimate=point.estimate.over(1 / point.base), base=1) for point in own]
        for name, own in lines.drawn.items()
    }
    return Lines(scaled, lines.left_out)


def first_of(things: list[_Thing], rank: Callable[[_Thing], tuple[bool, bool]], most: int) -> list[_Thing]:
    """Return as many things as there may be, those of the lowest rank, in the order in which they came."""
    kept = sorted(range(len(things)), key=lambda place: rank(things[place]))[:most]
    return [things[place] for place in sorted(kept)]


def not_drawn(names: list[str], what: str) -> str:
    """Return what the table has beyond a plot, for the end of its caption; nothing if the plot has all."""
    if not names:
        return ""
    more = len(names) - MOST_NAMED
    named = [style.name(name) for name in names[:MOST_NAMED]] + ([f"{more:,} others"] if more > 0 else [])
    count = f"1 more {what} is" if len(names) == 1 else f"{len(names):,} more {what}s are"
    return f" {count} in the table: {listing(named)}."


def _grouped(points: list[Point]) -> dict[str, list[Point]]:
    """Group points; where one line has two layouts of as many processes, each number of nodes is a line."""
    lines: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        lines[point.line].append(point)
    split: dict[str, list[Point]] = defaultdict(list)
    for name, own in lines.items():
        twice = len({point.processes for point in own}) < len(own)
        for point in own:
            nodes = f"{point.nodes} node{'' if point.nodes == 1 else 's'}"
            split[f"{name}, {nodes}" if twice else name].append(point)
    return split
