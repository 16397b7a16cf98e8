"""A checked number, one that was not checked, and what is found in a whole document."""

from dataclasses import dataclass, field

from runner.core.text import one_line
from runner.tools.audit.columns import LONGEST, Column
from runner.tools.audit.quantities import Quantity
from runner.tools.audit.spans import CONSISTENT, FLIPS, INCONSISTENT, TRUNCATED, Span

MEASURED = "measured or set: nothing in the table that it follows from"
GRADES = (CONSISTENT, TRUNCATED, INCONSISTENT, FLIPS)


@dataclass(frozen=True)
class Place:
    """Where a number is printed; `row` counts the rows of its table from 1 and is 0 in running text."""

    file: str
    line: int
    column: str
    row: int
    text: str


@dataclass(frozen=True)
class Finding(Place):
    """One printed number that follows from others, with its grade.

    `printed`, `computed` and `interval` are in the unit that is printed: 98.69 for 98.69%.
    """

    printed: float
    computed: float
    interval: tuple[float, float]
    grade: str
    formula: str
    note: str

    @property
    def wrong(self) -> bool:
        """Whether it contradicts the numbers beside it."""
        return self.grade in (INCONSISTENT, FLIPS)


@dataclass(frozen=True)
class Unchecked(Place):
    """A number that was not checked, with the reason; `row` is 0 where it stands for more than a cell."""

    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.column}: {self.reason}"


@dataclass
class Audit:
    """All numbers of a document: those that were checked, and the others."""

    file: str
    tables: int = 0
    findings: list[Finding] = field(default_factory=list)
    unchecked: list[Unchecked] = field(default_factory=list)

    def add(self, other: "Audit") -> None:
        """Add what another one found in the same document."""
        self.findings += other.findings
        self.unchecked += other.unchecked

    def skip(self, line: int, what: str, reason: str) -> None:
        """Note what was not checked, other than a cell."""
        self.unchecked.append(Unchecked(self.file, line, what, 0, "", reason))


def cell_of(file: str, column: Column, row: int) -> Place:
    """Return the place of a cell."""
    cell = column.cells[row]
    return Place(file, cell.line, column.name, row + 1, one_line(cell.text, LONGEST))


def finding(
    place: Place, printed: Quantity, value: Span, grade: str, formula: str, note: str = "", digits: int = 7
) -> Finding:
    """Make a finding, with what follows in the unit that is printed."""
    low, middle, high = (float(f"{end / printed.scale:.{digits}g}") for end in (value.low, value.middle, value.high))
    at = place.file, place.line, place.column, place.row, place.text
    return Finding(*at, printed.number, middle, (low, high), grade, formula, note)
