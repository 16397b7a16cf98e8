"""A checked number, one that was not checked, and what is found in a whole document."""

from __future__ import annotations

from dataclasses import dataclass, field

from runner.tools.audit.spans import CONSISTENT, FLIPS, INCONSISTENT, TRUNCATED

MEASURED = "measured or set: nothing in the table that it follows from"


@dataclass(frozen=True)
class Finding:
    """One printed number that follows from others, with its grade.

    `printed`, `computed` and `interval` are in the unit that is printed: 98.69 for 98.69%. `text` is the cell.
    `row` counts the rows of its table from 1 and is 0 in running text.
    """

    file: str
    line: int
    column: str
    row: int
    text: str
    printed: float
    computed: float
    interval: tuple[float, float]
    grade: str
    formula: str
    note: str = ""

    @property
    def wrong(self) -> bool:
        """Whether it contradicts the numbers beside it."""
        return self.grade in (INCONSISTENT, FLIPS)


@dataclass(frozen=True)
class Unchecked:
    """A number that was not checked, with the reason; `row` is 0 where it stands for more than a cell."""

    file: str
    line: int
    column: str
    reason: str
    row: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.column}: {self.reason}"


@dataclass
class Audit:
    """All numbers of a document: those that were checked, and the others."""

    file: str
    tables: int = 0
    findings: list[Finding] = field(default_factory=list)
    unchecked: list[Unchecked] = field(default_factory=list)

    def count(self, grade: str) -> int:
        """Return how many numbers have a grade."""
        return sum(finding.grade == grade for finding in self.findings)

    def skip(self, line: int, what: str, reason: str) -> None:
        """Note what was not checked, other than a cell."""
        self.unchecked.append(Unchecked(self.file, line, what, reason))


GRADES = (CONSISTENT, TRUNCATED, INCONSISTENT, FLIPS)
