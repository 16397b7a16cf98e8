"""The columns of the summary: each one's key in csv and json, its head in tables, and how its value is written.

The order of `COLUMNS` is that of the keys, which is a promise; `TABLE` says which stand in tables and on pages.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runner.records.observed import SAMPLE_SECONDS
from runner.report.cells import estimate, interval, page_estimate, page_times, share
from runner.report.rows import Block, Row
from runner.report.statistics import CONFIDENCE


@dataclass(frozen=True)
class Column:
    """One column: its key for scripts, what a row has in it, its head, and how that is written in a cell.

    The head of the seconds is the name of what was measured. `write_on_page` also writes that there is no value. A
    value that `has_interval` is an Estimate, whose ends have keys of their own.
    """

    key: str
    value: Callable[[Row], Any]
    head: str = ""
    write: Callable[[Any], str] = str
    write_on_page: Callable[[Any], str] | None = None
    has_interval: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of its figures for scripts."""
        return (self.key, f"{self.key}_low", f"{self.key}_high") if self.has_interval else (self.key,)

    def figures(self, row: Row) -> tuple[Any, ...]:
        """Return the figures of a row, one for each key."""
        value = self.value(row)
        if not self.has_interval:
            return (value,)
        return (value.value, value.low, value.high) if value else (None, None, None)

    def head_of(self, block: Block) -> str:
        """Return its head in the table of a block."""
        if not self.has_interval:
            return self.head
        return f"{self.head or block.first.measure.replace('_', ' ')} [{CONFIDENCE}]"

    def cell(self, row: Row, *, on_page: bool = False) -> str:
        """Return the cell of a row."""
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
"""What stands in a table, in this order; `axes` is a column for each axis."""
CLAIMED = "claimed"
"""The head of the last column: yes, or the reason why not."""
SHORT = {"efficiency": "eff.", "accuracy": "acc."}
"""Shorter heads, where there is no room for the whole word."""
DISPENSABLE = ("serial", "MFU", "efficiency")
"""The heads of what a narrow table does without, in this order."""


def plain(row: Row) -> dict[str, Any]:
    """Return a row as plain values for scripts."""
    return {key: value for column in COLUMNS for key, value in zip(column.keys, column.figures(row), strict=True)}


def lay_out(block: Block, rows: Sequence[Row], *, on_page: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return the heads of the table of a block, and the cells of some of its rows."""
    by_key = {column.key: [column] for column in COLUMNS}
    by_key["axes"] = list(map(_axis, block.axes))
    if block.first.measure == SAMPLE_SECONDS:
        by_key["seconds"] = []  # nobody reads these in seconds
    columns = [column for key in TABLE for column in by_key[key]]
    lines = [[column.cell(row, on_page=on_page) for column in columns] for row in rows]
    return without_empty([column.head_of(block) for column in columns], lines)


def _axis(name: str) -> Column:
    return Column(name, lambda row: str(row.first.axes.get(name, "")), name)


def without_empty(head: list[str], lines: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Drop empty columns."""
    used = [place for place in range(len(head)) if any(line[place] for line in lines)]
    return [head[place] for place in used], [[line[place] for place in used] for line in lines]
