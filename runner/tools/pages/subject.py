"""Choose the rows and runs of a block that a section of the page draws."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from runner.core.layout import Layout
from runner.definitions.published import figures
from runner.report.rows import Block, CellRuns, Row
from runner.report.run_summary import RunSummary
from runner.report.statistics import Estimate
from runner.tools.pages import style
from runner.tools.pages.details import DetailReader, Details


class Gap(NamedTuple):
    """A missing plot, and why it is missing."""

    title: str
    why: str


@dataclass(frozen=True)
class Subject:
    """A block and a reader of its records. The names of its plot files begin with `prefix`, unique on the page."""

    block: Block
    reader: DetailReader
    prefix: str

    @property
    def measured(self) -> list[Row]:
        """The rows with a complete run."""
        return [row for row in self.block.rows if row.complete]

    def drawn(self, most: int = style.MOST_SERIES) -> list[tuple[Row, Details]]:
        """Return at most `most` of the measured rows, evenly spaced, with the details of their typical run."""
        rows = self.measured
        if len(rows) > most:
            rows = [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]
        read = [(row, self.reader(typical_run(row))) for row in rows]
        return [(row, details) for row, details in read if details is not None]

    def which(self, drawn: int) -> str:
        """Describe which cells and runs are drawn; "" if all are drawn."""
        is_part = len(self.measured) > style.MOST_SERIES
        cells = f"{drawn} of {len(self.measured)} cells are drawn. " if is_part else ""
        repeated = any(len(row.complete) > 1 for row in self.measured)
        return cells + ("Each line is the cell's run of median time." if repeated else "")

    def plot(self, kind: str) -> str:
        """Return the file name of a plot, without its suffix."""
        return f"{self.prefix}-{kind}"

    @property
    def published(self) -> list[dict[str, Any]]:
        """The published rows, each with its number of processes (None if the row has no layout)."""
        return [{**row, "processes": _processes(row.get("layout"))} for row in figures(self.block.definition)]


def typical_run(cell: CellRuns) -> RunSummary:
    """Return the complete run of median time. If two runs are in the middle, return the faster run."""
    ordered = sorted(cell.complete, key=lambda run: (run.seconds or 0.0, run.path))
    return ordered[(len(ordered) - 1) // 2]


def _processes(layout: object) -> int | None:
    try:
        return Layout.parse(layout).world_size
    except ValueError:
        return None


def slow_down(speedup: Estimate) -> str:
    """Return ", a slow-down" for a speed-up below 1, else ""."""
    return ", a slow-down" if speedup.value < 1 else ""


def listing(words: list[str]) -> str:
    """Join words with commas and a final "and"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
