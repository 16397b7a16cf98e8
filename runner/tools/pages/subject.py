"""What one section of a page is about: a block, and which of its runs stand for their cells in plots of single runs."""

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
    """A plot that cannot be drawn, and why."""

    title: str
    why: str


@dataclass(frozen=True)
class Subject:
    """A block, a reader of its records, and the beginning of its plots' file names, which no other block has."""

    block: Block
    reader: DetailReader
    prefix: str

    @property
    def measured(self) -> list[Row]:
        """The rows with a complete run."""
        return [row for row in self.block.rows if row.complete]

    def drawn(self, most: int = style.MOST_SERIES) -> list[tuple[Row, Details]]:
        """Return rows with the record of their typical run; of too many, some from the first to the last."""
        rows = self.measured
        if len(rows) > most:
            rows = [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]
        read = [(row, self.reader(typical_run(row))) for row in rows]
        return [(row, details) for row, details in read if details is not None]

    def which(self, drawn: int) -> str:
        """Return which runs were drawn, where it is not all."""
        is_part = len(self.measured) > style.MOST_SERIES
        cells = f"{drawn} of {len(self.measured)} cells are drawn. " if is_part else ""
        repeated = any(len(row.complete) > 1 for row in self.measured)
        return cells + ("Each line is the run of median time of its cell." if repeated else "")

    def plot(self, kind: str) -> str:
        """Name a plot's file."""
        return f"{self.prefix}-{kind}"

    @property
    def published(self) -> list[dict[str, Any]]:
        """The published rows, each with the number of its processes if it has a layout."""
        return [{**row, "processes": _processes(row.get("layout"))} for row in figures(self.block.definition)]


def typical_run(cell: CellRuns) -> RunSummary:
    """Return the complete run of median time; of an even number, the faster of the two in the middle."""
    ordered = sorted(cell.complete, key=lambda run: (run.seconds or 0.0, run.path))
    return ordered[(len(ordered) - 1) // 2]


def _processes(layout: object) -> int | None:
    try:
        return Layout.parse(layout).world_size
    except ValueError:
        return None


def slow_down(speedup: Estimate) -> str:
    """Return the words that call a slow-down one."""
    return ", a slow-down" if speedup.value < 1 else ""


def listing(words: list[str]) -> str:
    """Join words as a sentence does."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
