"""A checked number, and what is found in a whole document."""

from __future__ import annotations

from dataclasses import dataclass, field

from runner.audit.spans import CONSISTENT, FLIPS, INCONSISTENT, TRUNCATED


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


@dataclass
class Audit:
    """All findings of a document, and how many derived numbers could not be checked."""

    file: str
    tables: int = 0
    findings: list[Finding] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def count(self, grade: str) -> int:
        """Return how many numbers have a grade."""
        return sum(one.grade == grade for one in self.findings)


GRADES = (CONSISTENT, TRUNCATED, INCONSISTENT, FLIPS)
