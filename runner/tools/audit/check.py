"""Check the tables of a page: every column that follows from others, number by number."""

from __future__ import annotations

from dataclasses import replace

from runner.core.text import one_line
from runner.tools.audit import accuracies, rates, ratios
from runner.tools.audit.columns import DERIVED, Column, columns_of, locales, turned
from runner.tools.audit.conclusions import flips, other_side
from runner.tools.audit.findings import MEASURED, Audit, Finding, Unchecked
from runner.tools.audit.formulas import ones_of
from runner.tools.audit.means import grade_mean, mean_rows
from runner.tools.audit.quantities import is_missing, plain
from runner.tools.audit.readings import Verdict, choose
from runner.tools.audit.roles import Role, role_of
from runner.tools.audit.shapes import context_of
from runner.tools.audit.spans import CONSISTENT, FLIPS, INCONSISTENT, TRUNCATED, Span
from runner.tools.audit.spans import grade as graded
from runner.tools.audit.tables import MOST_ROWS, Page, Table

_LONGEST = 80
_NO_SOURCE = "nothing that it follows from"


def check_tables(page: Page) -> Audit:
    """Check all tables of a page."""
    audit = Audit(page.file, len(page.tables))
    before: Table | None = None
    for whole in page.tables:
        table = replace(whole, rows=whole.rows[:MOST_ROWS])
        if len(whole.rows) > MOST_ROWS:
            audit.skip(whole.rows[MOST_ROWS][0].line, "table", f"rows after the first {MOST_ROWS:,}")
        found = _check(table, before, page.file)
        audit.findings += found.findings
        audit.unchecked += found.unchecked
        before = table
    return audit


def _check(table: Table, before: Table | None, file: str) -> Audit:
    """Check a table as it stands or turned, with decimal points or commas: as most of its numbers are consistent."""
    other = turned(table)
    audits = [
        _Check(form, before, file, comma=comma).audit
        for form in [table, *([other] if other else [])]
        for comma in locales(form)
    ]
    return min(audits, key=lambda audit: (_wrong(audit) - len(audit.findings), _wrong(audit)))


def _wrong(audit: Audit) -> int:
    return sum(finding.wrong for finding in audit.findings)


class _Check:
    """A table that is checked in one form, and what is found in it."""

    def __init__(self, table: Table, before: Table | None, file: str, *, comma: bool) -> None:
        self.audit = Audit(file)
        self._table, self._before, self._comma = table, before, comma
        self._columns = columns_of(table, comma=comma)
        self._context = context_of(self._columns)
        self._means = mean_rows(self._columns)
        self._borrowed: list[tuple[Finding, str]] = []
        for column in self._columns:
            if column.known():
                self._column(column)
            else:
                self._report(replace(column, role=role_of(column.heading)), None, 0, _NO_SOURCE)
        self._drop_what_follows_from_wrong_numbers()
        self._accuracies()

    def _column(self, column: Column) -> None:
        if column.role in DERIVED:
            verdict, shift = self._derived(column)
            self._report(column, verdict, shift, _NO_SOURCE)
            return
        verdict = None
        if column.role is Role.RATE:
            printed = [value if row not in self._means else None for row, value in enumerate(column.values)]
            verdict = choose(rates.readings(column, self._context), printed)
        self._report(column, verdict, 0, MEASURED)

    def _derived(self, column: Column) -> tuple[Verdict | None, int]:
        """Choose the reading of a column, as one of this table or as one that continues the table before."""
        own = ones_of(column)
        printed = [value if row not in self._means else None for row, value in enumerate(column.values)]
        verdict = choose(ratios.readings(column, self._context), printed, own)
        if (verdict is None or not any(verdict.grades)) and self._before and not any(own):
            return _continued(self._table, self._before, column, comma=self._comma) or (verdict, 0)
        return verdict, 0

    def _report(self, column: Column, verdict: Verdict | None, shift: int, reason: str) -> None:
        """Add what was found for each number of a column, or why it could not be checked."""
        for row, quantity in enumerate(column.values):
            if quantity is None:
                text = column.cells[row].text
                if column.role in DERIVED and any(map(str.isdigit, text)) and not column.inner and not is_missing(text):
                    self._skip(column, row, "is not a plain number")
            elif row in self._means and column.role in DERIVED:
                self._mean(column, row, verdict)
            else:
                self._cell(column, row, verdict, shift, reason)

    def _cell(self, column: Column, row: int, verdict: Verdict | None, shift: int, reason: str) -> None:
        grade = verdict.grades[row + shift] if verdict else None
        reading = verdict.readings[row + shift] if verdict else None
        value = reading.values[row + shift] if reading else None
        if verdict is None or grade is None or reading is None or value is None:
            why = verdict.reason if verdict and column.role in DERIVED else ""
            self._skip(column, row, why or reason)
            return
        if grade == INCONSISTENT:
            turned_over = (
                other_side(column.values[row], value, 1.0) if shift else flips(column, row, reading, self._context)
            )
            grade = FLIPS if turned_over else INCONSISTENT
        self._add(column, row, value, grade, reading.formula(row + shift), reading.note)
        if reading.source >= 0 and self.audit.findings[-1].wrong:
            source = next(other for other in self._columns if other.index == reading.source)
            self._borrowed.append((self.audit.findings[-1], _name(source)))

    def _mean(self, column: Column, row: int, verdict: Verdict | None) -> None:
        """Grade a row of means by the other rows, or by its own times as any row."""
        bases = self._context.of(Role.TIME, Role.RATE)
        found = grade_mean(column, row, self._means, bases)
        usual, quantity = verdict.usual if verdict else None, column.values[row]
        value = usual.values[row] if usual else None
        if usual and value and quantity and (found is None or found[0] == INCONSISTENT):
            own = graded(quantity, value)
            found = (own, value, usual.formula(row)) if found is None or own != INCONSISTENT else found
        if found:
            self._add(column, row, found[1], found[0], found[2], "")
        else:
            self._skip(column, row, "a mean of other rows, of a kind that is not said")

    def _add(self, column: Column, row: int, value: Span, grade: str, formula: str, note: str) -> None:
        """Add a finding, in the unit that is printed."""
        quantity = column.values[row]
        if quantity is None:
            return
        low, middle, high = (float(f"{end / quantity.scale:.7g}") for end in (value.low, value.middle, value.high))
        kept = note if grade not in (CONSISTENT, TRUNCATED) or "less time" in note or "whole number" in note else ""
        cell, printed = column.cells[row], quantity.number
        text, name = one_line(cell.text, _LONGEST), _name(column)
        self.audit.findings.append(
            Finding(self.audit.file, cell.line, name, row + 1, text, printed, middle, (low, high), grade, formula, kept)
        )

    def _skip(self, column: Column, row: int, reason: str) -> None:
        cell = column.cells[row]
        text = one_line(cell.text, _LONGEST)
        self.audit.unchecked.append(Unchecked(self.audit.file, cell.line, _name(column), reason, row + 1, text))

    def _drop_what_follows_from_wrong_numbers(self) -> None:
        """Take back that an efficiency is wrong where the speed-up that it was computed from is."""
        wrong = {(finding.column, finding.row) for finding in self.audit.findings if finding.wrong}
        for finding, source in self._borrowed:
            if (source, finding.row) in wrong:
                self.audit.findings.remove(finding)
                reason = f"it follows from {source}, which is wrong in this row"
                place = finding.file, finding.line, finding.column
                self.audit.unchecked.append(Unchecked(*place, reason, finding.row, finding.text))

    def _accuracies(self) -> None:
        found = accuracies.check(self._table, self._columns, self._context, self.audit.file)
        cells = {(finding.line, finding.column, finding.text) for finding in found}
        kept = [number for number in self.audit.unchecked if (number.line, number.column, number.text) not in cells]
        self.audit.unchecked = kept
        self.audit.findings += found


def _name(column: Column) -> str:
    return one_line(column.heading, _LONGEST) or f"column {column.index + 1}"


def _continued(table: Table, before: Table, column: Column, *, comma: bool) -> tuple[Verdict, int] | None:
    """Take a table with the headings of the one before, and without a baseline, as its continuation."""
    names = [["".join(plain(cell.text).lower().split()) for cell in part.headings] for part in (before, table)]
    if names[0] != names[1]:
        return None
    both = replace(before, rows=before.rows + table.rows)
    columns = columns_of(both, comma=comma)
    mine = next((other for other in columns if other.index == column.index and other.inner == column.inner), None)
    if mine is None or mine.role is not column.role:
        return None
    verdict = choose(ratios.readings(mine, context_of(columns)), mine.values, ones_of(mine))
    return (verdict, len(before.rows)) if verdict and not verdict.reason else None
