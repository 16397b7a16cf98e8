"""A results folder -> what was predicted beside what was measured, for each experiment of which both are known."""

from pathlib import Path

from runner.report.cells import estimate
from runner.report.run_summary import RunSummary
from runner.report.statistics import DEFAULT
from runner.report.table import Table
from runner.tools.predict import MEASURE
from runner.tools.predict.answer import Line, answer, measured_cells
from runner.tools.predict.links import Assumed
from runner.tools.predict.starts import Reader, Start, Wanted, place_of
from runner.tools.predict.words import limit, missed, otherwise

HEAD = ["layout", "communication", "n", f"speed-up [{DEFAULT}]", f"predicted [{DEFAULT}]", "off"]
HEAD += ["limited by, as predicted"]
_ABOUT = "from the runs with one process and those that measured the network, without the runs that are predicted"
_MOST_RUNS = 20_000
"""Of a folder; the table of one with more is not made slower by predictions."""


def tables(results: Path, runs: list[RunSummary], experiment: str | None = None) -> list[Table]:
    """Return a table for each cell of one process that has measured and predicted speed-ups; often there is none."""
    if len(runs) > _MOST_RUNS:
        return []
    reader = Reader(results, runs)
    several = (run for run in runs if run.measure != MEASURE and run.processes > 1)
    places = {(run.experiment, run.target, tuple(place_of(run).items())) for run in several}
    found = []
    for name, target, place in sorted(places):
        if experiment in (None, name):
            wanted = Wanted(target=target, place=dict(place))
            found += [_table(start, dict(place)) for start in reader.starts(name, wanted)]
    return [table for table in found if table is not None]


def _table(start: Start, place: dict[str, str]) -> Table | None:
    cells = measured_cells(start)
    if start.base is None or not cells or not start.measured:
        return None
    lines = [
        line for layout, choice in cells for line in answer(start, start.base, [layout], [choice], Assumed()).lines
    ]
    known = [line for line in lines if line.measured is not None and line.expected.speedup is not None]
    known = [line for line in known if line.expected.layout.world_size > 1]
    if not known:
        return None
    head, rows = HEAD, [_cells(line) for line in known]
    if all(line.expected.communication is None or str(line.expected.communication) == "ddp" for line in known):
        head, rows = [HEAD[0], *HEAD[2:]], [[row[0], *row[2:]] for row in rows]
    first = start.base.first
    between = [f"{axis} {value}" for axis, value in place.items() if first.axes.get(axis) != value]
    where = ", ".join([f"target {first.target}", *between])
    title = f"{start.name}, {where}: predicted beside measured"
    return Table(title, head, rows, [_ABOUT], notes=[*missed(known), *otherwise(known)])


def _cells(line: Line) -> list[str]:
    row, measured = line.expected, line.measured
    off = f"{row.speedup.value / measured.value - 1:+.0%}" if row.speedup and measured else ""
    choice = str(row.communication or "")
    return [str(row.layout), choice, str(line.runs), estimate(measured), estimate(row.speedup), off, limit(row)]
