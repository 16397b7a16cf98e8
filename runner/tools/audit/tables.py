"""What a document is read into: tables of cells with the line of each, and the passages of text between them."""

from dataclasses import dataclass, field

MOST_BYTES = 2_000_000
MOST_LINES = 50_000
MOST_CELLS = 60_000
"""Cells of all tables of one file; merged cells count as often as they are repeated."""
MOST_COLUMNS = 200
MOST_ROWS = 500
"""Rows of one table that are checked; to find out what follows from what takes more than linear time."""
LONGEST_CELL = 400
"""Characters of a cell; a longer one is text and no number."""


@dataclass(frozen=True)
class Cell:
    """A cell as a reader sees it, without markup; `line` counts from 1."""

    text: str
    line: int


@dataclass(frozen=True)
class Table:
    """A table with one heading for each column; every row has as many cells as there are headings.

    `near` is the text around it, which may say how many samples an accuracy was measured on. `comma` says that a
    decimal comma is likely, because semicolons separate the cells.
    """

    headings: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    near: str = ""
    comma: bool = False


@dataclass(frozen=True)
class Passage:
    """A line of text outside of tables and code."""

    text: str
    line: int
    heading: bool = False


@dataclass(frozen=True)
class Page:
    """One document."""

    file: str
    tables: list[Table] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)


def make_table(rows: list[list[Cell]], heads: int = 1, near: str = "", *, comma: bool = False) -> Table | None:
    """Make a table of rows that may be ragged; None if it has no heading or no row.

    Several rows of headings are joined, each text once: `A100` above `time` becomes `A100 time`.
    """
    rows = [row for row in rows if any(cell.text for cell in row)]
    if heads < 1 or len(rows) <= heads:
        return None
    width = max(map(len, rows))
    full = [row + [Cell("", row[-1].line if row else 1)] * (width - len(row)) for row in rows]
    headings = []
    for column in range(width):
        words = list(dict.fromkeys(row[column].text for row in full[:heads] if row[column].text))
        headings.append(Cell(" ".join(words), full[0][column].line))
    return Table(tuple(headings), tuple(tuple(row) for row in full[heads:]), near, comma)
