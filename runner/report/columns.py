"""Define the columns of the summary, and write their figures.

The order of `COLUMNS` is the order of the keys in csv and json, which scripts rely on.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from runner.records.observed import SAMPLE_SECONDS
from runner.report.rows import Block, Row
from runner.report.statistics import CONFIDENCE, Estimate

Head = TypeVar("Head")
_FOUR_DIGITS = 1_000
_LONG = 1e7
_MOST_DECIMALS = 4


def estimate(found: Estimate | None, least: int = 0) -> str:
    """Write a value and its interval with at least `least` decimals, for example `1.68 [1.41, 2.01]`."""
    if found is None:
        return ""
    digits = max(least, _digits(found.value))
    ends = [end for end in (found.low, found.high) if end is not None]
    while digits < _MOST_DECIMALS and any(end != 1 and round(end, digits) == 1 for end in ends):
        digits += 1  # an interval that excludes 1 must not seem to end at 1.00
    return _with_ends(found, lambda value: _fixed(value, digits))


def interval(found: Estimate) -> str:
    """Write a value and the half width of its interval, for example `15.92 ±21%`.

    This needs half the room of `estimate`. The half width is the distance to the upper end, which is farther away than
    the lower end. If the upper end is more than twice the value, a factor is written, for example `15.92 x/÷ 3.1`.
    """
    value = _fixed(found.value, _digits(found.value))
    if found.low is None or found.high is None:
        return value
    factor = max(found.high / found.value, 1.0)
    if factor > 2:
        return f"{value} x/÷ {factor:.2g}"
    return f"{value} ±{share(factor - 1)}"


def seconds(value: float) -> str:
    """Write the seconds of a single run."""
    return _fixed(value, decimals(value))


def share(value: float) -> str:
    """Write a share as a percentage with two significant digits."""
    return f"{value:.0%}" if value >= 0.1 else f"{value:.1%}"


def decimals(seconds: float) -> int:
    """Return the number of decimals for a time. It is two, but times below 0.1 seconds get three significant digits."""
    return 2 - math.floor(math.log10(seconds)) if 0 < seconds < 0.1 else 2


def page_seconds(value: float) -> str:
    """Write seconds. Values of 1,000 or more get no decimals."""
    return f"{value:,.{_digits(value)}f}"


def page_times(found: Estimate | None) -> str:
    """Write typical seconds and their interval, for example `1,204 [1,190, 1,219]`."""
    return "no complete run" if found is None else _with_ends(found, page_seconds)


def page_ratio(value: float) -> str:
    """Write a ratio with two decimals, or with an exponent if it is very small or large."""
    return f"{value:.2f}" if 0.005 <= value < 10_000 or value == 0 else f"{value:.1e}"


def page_estimate(found: Estimate | None) -> str:
    """Write a ratio and its interval, if it has one."""
    return "" if found is None else _with_ends(found, page_ratio)


def _with_ends(found: Estimate, write: Callable[[float], str]) -> str:
    if found.low is None or found.high is None:
        return write(found.value)
    return f"{write(found.value)} [{write(found.low)}, {write(found.high)}]"


def _digits(value: float) -> int:
    return decimals(value) if value < _FOUR_DIGITS else 0


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if value < _LONG else f"{value:.2e}"


@dataclass(frozen=True)
class Column:
    """A column of the summary: its key for scripts, its value in a row, its head, and how cells are written.

    The value of a column with an interval is an `Estimate`. Such a column has two more keys, for the ends of the
    interval. If it has no `head`, the name of the measure is used. Unlike `write`, `write_on_page` is also called with
    None.
    """

    key: str
    value: Callable[[Row], Any]
    head: str = ""
    write: Callable[[Any], str] = str
    write_on_page: Callable[[Any], str] | None = None
    has_interval: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the column's figures in csv and json."""
        return (self.key, f"{self.key}_low", f"{self.key}_high") if self.has_interval else (self.key,)

    def figures(self, row: Row) -> tuple[Any, ...]:
        """Return a row's figures, one for each key."""
        value = self.value(row)
        if not self.has_interval:
            return (value,)
        return (value.value, value.low, value.high) if value else (None, None, None)

    def head_of(self, block: Block) -> str:
        """Return the head of the column in the table of a block."""
        if not self.has_interval:
            return self.head
        return f"{self.head or block.first.measure.replace('_', ' ')} [{CONFIDENCE}]"

    def cell(self, row: Row, *, on_page: bool = False) -> str:
        """Return the text of the column's cell in a row."""
        value = self.value(row)
        if on_page and self.write_on_page:
            return self.write_on_page(value)
        return "" if value is None else self.write(value)


COLUMNS = (
    Column("experiment", lambda row: row.first.experiment),
    Column("target", lambda row: row.first.target),
    Column("layout", lambda row: row.first.layout, "layout"),
    Column("axes", lambda row: row.first.axes),
    Column("n", lambda row: len(row.complete), "n"),
    Column("seconds", lambda row: row.seconds, "", interval, page_times, has_interval=True),
    Column("speedup", lambda row: row.speedup, "speed-up", estimate, page_estimate, has_interval=True),
    Column("efficiency", lambda row: row.efficiency and row.efficiency.value, "efficiency", "{:.0%}".format),
    Column("accuracy", lambda row: row.mean("accuracy"), "accuracy", "{:.2%}".format),
    Column("claimed", lambda row: row.claimed, "claimed", lambda claimed: "yes" if claimed is True else claimed),
    Column("not_complete", lambda row: len(row.runs) - len(row.complete)),
    Column("processes", lambda row: row.first.processes, "processes"),
    Column("best_accuracy", lambda row: row.mean("best_accuracy")),
    Column("serial_fraction", lambda row: row.serial_fraction, "serial", "{:.1%}".format),
    Column("hardware", lambda row: row.first.hardware),
    Column("program", lambda row: row.first.program),
    Column("args", lambda row: row.first.args),
    Column("scaling", lambda row: row.scaling),
    Column("measure", lambda row: row.first.measure),
    Column("points", lambda row: [run.seconds for run in row.complete]),
    Column("published", lambda row: row.published),
    Column("started_by_hand", lambda row: sum(run.by_hand for run in row.runs)),
    Column("load", lambda row: row.load),
    Column("sources", lambda row: row.sources),
    Column("mfu", lambda row: row.mean("mfu"), "MFU", share),
    Column("limited_by", lambda row: re.split("[,:]", row.limit)[0] or None),
    Column("samples_per_second", lambda row: row.rate, "samples/s", interval, page_times, has_interval=True),
)
FIELDS = tuple(key for column in COLUMNS for key in column.keys)
TABLE = (
    *("layout", "axes", "n", "seconds", "samples_per_second", "speedup"),
    *("efficiency", "serial_fraction", "accuracy", "mfu", "claimed"),
)
"""The keys of the columns of tables and pages, in order. `axes` stands for one column per axis."""
CLAIMED = "claimed"
"""The head of the last column, whose cells are "yes" or a reason."""
SHORT = {"efficiency": "eff.", "accuracy": "acc."}
DISPENSABLE = ("serial", "MFU", "efficiency")
"""The heads of columns that narrow tables drop, in this order."""


def plain(row: Row) -> dict[str, Any]:
    """Return the figures of a row by their keys."""
    return {key: value for column in COLUMNS for key, value in zip(column.keys, column.figures(row), strict=True)}


def lay_out(block: Block, rows: Sequence[Row], *, on_page: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return the heads of a block's table, and the cells of the given rows."""
    by_key = {column.key: [column] for column in COLUMNS}
    by_key["axes"] = list(map(_axis, block.axes))
    # The time of one sample is shown as a rate, any other time in seconds.
    by_key["seconds" if block.first.measure == SAMPLE_SECONDS else "samples_per_second"] = []
    columns = [column for key in TABLE for column in by_key[key]]
    lines = [[column.cell(row, on_page=on_page) for column in columns] for row in rows]
    return without_empty([column.head_of(block) for column in columns], lines)


def _axis(name: str) -> Column:
    return Column(name, lambda row: str(row.first.axes.get(name, "")), name)


def without_empty(head: list[str], lines: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Drop empty columns."""
    return only([place for place in range(len(head)) if any(line[place] for line in lines)], head, lines)


def only(places: list[int], head: list[Head], lines: list[list[str]]) -> tuple[list[Head], list[list[str]]]:
    """Keep only the columns at these places."""
    return [head[place] for place in places], [[line[place] for place in places] for line in lines]
