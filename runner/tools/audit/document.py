"""A whole document, checked: its tables, each column that follows from others number by number, and its text."""

import re
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from runner.tools.audit import accuracies, rates, ratios
from runner.tools.audit.columns import DERIVED, Column, columns_of, locales, turned
from runner.tools.audit.findings import MEASURED, Audit, Finding, Unchecked, cell_of, finding
from runner.tools.audit.formats import read_page
from runner.tools.audit.formulas import Context, context_of
from runner.tools.audit.means import OPEN, Graded, grade_mean, mean_rows
from runner.tools.audit.prose import check_prose
from runner.tools.audit.quantities import Quantity, is_missing, plain
from runner.tools.audit.readings import Reading, Verdict, choose
from runner.tools.audit.roles import Role, role_of
from runner.tools.audit.spans import CONSISTENT, FLIPS, INCONSISTENT, TRUNCATED
from runner.tools.audit.spans import grade as graded
from runner.tools.audit.tables import MOST_ROWS, Page, Table

_NO_SOURCE = "nothing that it follows from"
# "Speed-ups exclude the 40 s of start-up", "加速比不含启动时间"
_LEAVES_OUT = re.compile(
    r"(?:speed-?ups?|efficienc\w+|scaling)[^.|]{0,60}"
    r"\b(?:exclud\w+|d(?:o|oes|id) not (?:count|include)|leaves? out|net of"
    r"|(?:of|for|count)\b[^.|]{0,30}\b(?:only|alone)|(?:median|mean|average)s? of the .{0,12}ratios)\b"
    r"|(?:加速|效率)[^。|]{0,20}(?:不含|不包括|扣除|除去|仅)",
    re.IGNORECASE,
)


def audit_file(path: Path, stdin: BinaryIO | None = None, format_: str = "") -> Audit:
    """Read and check a file; RequestError if it cannot be read."""
    return audit_page(read_page(path, stdin, format_))


def audit_page(page: Page) -> Audit:
    """Check a page that has been read."""
    audit = Audit(page.file, len(page.tables))
    before: Table | None = None
    for whole in page.tables:
        table = replace(whole, rows=whole.rows[:MOST_ROWS])
        if len(whole.rows) > MOST_ROWS:
            audit.skip(whole.rows[MOST_ROWS][0].line, "table", f"rows after the first {MOST_ROWS:,}")
        audit.add(_check(table, before, page.file))
        before = table
    audit.add(check_prose(page))
    audit.findings.sort(key=lambda checked: checked.line)
    return audit


def _check(table: Table, before: Table | None, file: str) -> Audit:
    """Check a table as it stands or turned, with decimal points or commas: as most of its numbers are consistent."""
    other = turned(table)
    forms = [table, *([other] if other else [])]
    audits = [_Check(form, before, file, comma=comma).audit for form in forms for comma in locales(form)]
    return min(audits, key=lambda audit: (_wrong(audit) - len(audit.findings), _wrong(audit)))


def _wrong(audit: Audit) -> int:
    return sum(checked.wrong for checked in audit.findings)


class _Check:
    """A table that is checked in one form, and what is found in it."""

    def __init__(self, table: Table, before: Table | None, file: str, *, comma: bool) -> None:
        self.audit = Audit(file)
        self._table, self._before, self._comma = table, before, comma
        self._columns = columns_of(table, comma=comma)
        self._context = context_of(self._columns)
        self._means = mean_rows(self._columns)
        self._borrowed: list[tuple[Finding, str, set[int]]] = []
        for column in self._columns:
            if column.known():
                self._column(column)
            else:
                self._report(replace(column, role=role_of(column.heading)), None, 0, _NO_SOURCE)
        self._drop_what_follows_from_wrong_numbers()
        found = accuracies.check(table, self._columns, self._context, file)
        cells = {(checked.line, checked.column, checked.text) for checked in found}
        kept = [number for number in self.audit.unchecked if (number.line, number.column, number.text) not in cells]
        self.audit.unchecked = kept
        self.audit.findings += found

    def _column(self, column: Column) -> None:
        """Choose the reading of a column, as one of this table or as one that continues the table before."""
        verdict, shift = None, 0
        printed = [value if row not in self._means else None for row, value in enumerate(column.values)]
        if column.role is Role.RATE:
            verdict = choose(rates.readings(column, self._context), printed)
        elif column.role in DERIVED:
            own = column.ones
            verdict = choose(ratios.readings(column, self._context), printed, own)
            if (verdict is None or not any(verdict.grades)) and self._before and not own:
                verdict, shift = self._continued(column, self._before) or (verdict, 0)
        self._report(column, verdict, shift, _NO_SOURCE if column.role in DERIVED else MEASURED)

    def _continued(self, column: Column, before: Table) -> tuple[Verdict, int] | None:
        """Take a table with the headings of the one before, and without a baseline, as its continuation."""
        heads = (part.headings for part in (before, self._table))
        names = [["".join(plain(cell.text).lower().split()) for cell in headings] for headings in heads]
        if names[0] != names[1]:
            return None
        columns = columns_of(replace(before, rows=before.rows + self._table.rows), comma=self._comma)
        mine = next((other for other in columns if (other.index, other.inner) == (column.index, column.inner)), None)
        if mine is None or mine.role is not column.role:
            return None
        verdict = choose(ratios.readings(mine, context_of(columns)), mine.values, mine.ones)
        if verdict is None or verdict.reason or (self._table.near.strip() and INCONSISTENT in verdict.grades):
            return None  # a text between the two may name another baseline
        return verdict, len(before.rows)

    def _report(self, column: Column, verdict: Verdict | None, shift: int, reason: str) -> None:
        """Add what was found for each number of a column, or why it could not be checked."""
        for row, quantity in enumerate(column.values):
            if quantity is None:
                text = column.cells[row].text
                if column.role in DERIVED and any(map(str.isdigit, text)) and not column.inner and not is_missing(text):
                    self._skip(column, row, "is not a plain number")
            elif row in self._means and column.role in DERIVED:
                self._mean(column, row, quantity, verdict)
            else:
                self._cell(column, row, quantity, verdict, shift, reason)

    def _cell(
        self, column: Column, row: int, quantity: Quantity, verdict: Verdict | None, shift: int, reason: str
    ) -> None:
        grade = verdict.grades[row + shift] if verdict else None
        reading = verdict.readings[row + shift] if verdict else None
        value = reading.values[row + shift] if reading else None
        if verdict is None or grade is None or reading is None or value is None:
            why = verdict.reason if verdict and column.role in DERIVED else ""
            self._skip(column, row, why or reason)
            return
        if grade == INCONSISTENT and column.role in DERIVED and _LEAVES_OUT.search(self._table.near):
            self._skip(column, row, "the text says that it is not of all that was measured")
            return
        if grade == INCONSISTENT:
            limits = [1.0] if shift else _limits(column, row, reading, self._context)
            across = any(quantity.low > limit > value.high or quantity.high < limit < value.low for limit in limits)
            grade = FLIPS if across or (not shift and _best_changes(column, row, quantity, reading)) else INCONSISTENT
        self._add(column, row, quantity, (grade, value, reading.formula(row + shift)), reading.note)
        if reading.source >= 0 and self.audit.findings[-1].wrong:
            source = next(other for other in self._columns if other.index == reading.source)
            base = reading.bases[row] if reading.bases and not shift else None
            rows = {row + 1, row + 1 if base is None else base + 1}
            self._borrowed.append((self.audit.findings[-1], source.name, rows))

    def _mean(self, column: Column, row: int, quantity: Quantity, verdict: Verdict | None) -> None:
        """Grade a row of means by the other rows, or by its own times as any row."""
        found = grade_mean(quantity, column, row, self._means, self._context.of(Role.TIME, Role.RATE))
        usual = verdict.usual if verdict else None
        value = usual.values[row] if usual else None
        if usual and value and (found is None or found[0] == INCONSISTENT):
            own = graded(quantity, value)
            if own != INCONSISTENT or (found is None and self._means[row] not in OPEN):
                found = own, value, usual.formula(row)
        if found:
            self._add(column, row, quantity, found, "")
        else:
            self._skip(column, row, "a mean of other rows, of a kind that is not said")

    def _add(self, column: Column, row: int, quantity: Quantity, found: Graded, note: str) -> None:
        """Add a finding, in the unit that is printed."""
        grade, value, formula = found
        kept = note if grade not in (CONSISTENT, TRUNCATED) or "less time" in note or "whole number" in note else ""
        place = cell_of(self.audit.file, column, row)
        self.audit.findings.append(finding(place, quantity, value, grade, formula, kept))

    def _skip(self, column: Column, row: int, reason: str) -> None:
        self.audit.unchecked.append(Unchecked(**vars(cell_of(self.audit.file, column, row)), reason=reason))

    def _drop_what_follows_from_wrong_numbers(self) -> None:
        """Take back that a number is wrong where the speed-up, or a throughput, that it was computed from is."""
        wrong = {(checked.column, checked.row) for checked in self.audit.findings if checked.wrong}
        for found, source, rows in self._borrowed:
            if any((source, row) in wrong for row in rows):
                self.audit.findings.remove(found)
                reason = f"it follows from {source}, which is wrong in this row"
                place = found.file, found.line, found.column, found.row, found.text
                self.audit.unchecked.append(Unchecked(*place, reason=reason))


def _limits(column: Column, row: int, reading: Reading, context: Context) -> list[float]:
    """Return the numbers that part one conclusion from another, for example faster from slower."""
    if column.role is Role.CHANGE:
        return [0.0]
    if column.role is Role.EFFICIENCY:
        return [column.unit]
    if column.role is Role.SPEEDUP and column.percent:
        return [0.0] if "- 1" in reading.formula(row) else [100.0]
    limits = [1.0] if column.role in (Role.SPEEDUP, Role.SLOWDOWN) else []
    counts = context.processes.first
    if column.role is Role.SPEEDUP and counts:
        base = reading.bases[row] if reading.bases else None
        own, count = counts[base] if base is not None else 1.0, counts[row]
        limits += [count / own] if count and own else []
    return limits


def _best_changes(column: Column, row: int, printed: Quantity, reading: Reading) -> bool:
    """Return whether another row is the best once this number is right, among the rows with the same baseline."""
    bases = reading.bases or (None,) * len(column.values)
    mine = reading.values[row]
    known = [(other, value) for other, value in enumerate(column.values) if value and other != row]
    others = [value for other, value in known if bases[other] == bases[row] and other not in reading.same]
    if not others or not mine or column.role not in (Role.SPEEDUP, Role.RATE):
        return False
    first = max(others, key=lambda quantity: quantity.value)
    return (printed.low > first.high and mine.high < first.low) or (printed.high < first.low and mine.low > first.high)
