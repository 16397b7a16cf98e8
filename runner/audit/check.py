"""Check the tables of a page: every column that follows from others, number by number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runner.audit import accuracies, rates, ratios
from runner.audit.columns import DERIVED, Column, columns_of, locales, turned
from runner.audit.findings import Audit, Finding
from runner.audit.quantities import plain
from runner.audit.readings import Verdict, choose, holds
from runner.audit.roles import Role
from runner.audit.spans import CONSISTENT, FLIPS, INCONSISTENT, TRUNCATED, Span
from runner.audit.tables import MOST_ROWS
from runner.core.text import one_line

if TYPE_CHECKING:
    from runner.audit.quantities import Quantity
    from runner.audit.tables import Page, Table

_LONGEST = 80


def check_tables(page: Page) -> Audit:
    """Check all tables of a page."""
    audit = Audit(page.file, len(page.tables))
    before: Table | None = None
    for whole in page.tables:
        table = replace(whole, rows=whole.rows[:MOST_ROWS])
        if len(whole.rows) > MOST_ROWS:
            place = f"{page.file}:{whole.rows[MOST_ROWS][0].line}"
            audit.unchecked.append(f"{place}: rows after the first {MOST_ROWS:,} of a table")
        found = _check(table, before, page.file)
        audit.findings += found.findings
        audit.unchecked += found.unchecked
        before = table
    return audit


def _check(table: Table, before: Table | None, file: str) -> Audit:
    """Check a table as it stands or turned, with decimal points or commas: as most of its numbers are consistent."""
    audits = []
    other = turned(table)
    for one in [table, *([other] if other else [])]:
        audits += [_check_as(one, before, file, comma=comma) for comma in locales(one)]
    return min(audits, key=lambda audit: (_wrong(audit) - len(audit.findings), _wrong(audit)))


def _wrong(audit: Audit) -> int:
    return sum(one.wrong for one in audit.findings)


def _check_as(table: Table, before: Table | None, file: str, *, comma: bool) -> Audit:
    audit = Audit(file)
    columns = columns_of(table, comma=comma)
    context = ratios.Context(columns, ratios.process_counts(columns))
    for column in columns:
        if not column.known():
            continue
        if column.role in DERIVED:
            verdict = choose(ratios.readings(column, context), column.values, ratios.ones_of(column))
            shift = 0
            if (verdict is None or not verdict.fits) and before and not any(ratios.ones_of(column)):
                verdict, shift = _continued(table, before, column, comma=comma) or (verdict, 0)
            _report(audit, column, verdict, context, shift)
        elif column.role is Role.RATE:
            verdict = choose(rates.readings(column, context), column.values)
            if verdict and verdict.score > 0:
                _report(audit, column, verdict, context, 0)
    audit.findings += accuracies.check(table, columns, context, file)
    return audit


def _continued(table: Table, before: Table, column: Column, *, comma: bool) -> tuple[Verdict, int] | None:
    """Take a table with the headings of the one before, and without a baseline, as its continuation."""
    names = [["".join(plain(cell.text).lower().split()) for cell in one.headings] for one in (before, table)]
    if names[0] != names[1]:
        return None
    both = replace(before, rows=before.rows + table.rows)
    columns = columns_of(both, comma=comma)
    mine = next((one for one in columns if one.index == column.index and one.inner == column.inner), None)
    if mine is None or mine.role is not column.role:
        return None
    context = ratios.Context(columns, ratios.process_counts(columns))
    verdict = choose(ratios.readings(mine, context), mine.values, ratios.ones_of(mine))
    return (verdict, len(before.rows)) if verdict and holds(verdict) else None


def _report(audit: Audit, column: Column, verdict: Verdict | None, context: ratios.Context, shift: int) -> None:
    """Add the findings of a column, or say that it could not be checked."""
    name = one_line(column.heading, _LONGEST) or f"column {column.index + 1}"
    place = f"{audit.file}:{column.cells[0].line}"
    if verdict is None or not holds(verdict):
        reason = "nothing that it follows from" if verdict is None else "no baseline or formula that fits its numbers"
        audit.unchecked += [f"{place}: {name}: {reason}"] * column.known()
        return
    reading = verdict.reading
    for row, quantity in enumerate(column.values):
        if quantity is None:
            if any(map(str.isdigit, column.cells[row].text)) and not column.inner:
                audit.unchecked.append(f"{place}: {name}: row {row + 1} is not a plain number")
            continue
        found, value = verdict.grades[row + shift], reading.values[row + shift]
        if found is None or value is None:
            audit.unchecked.append(f"{place}: {name}: row {row + 1} has nothing that it follows from")
            continue
        if found == INCONSISTENT:
            turns = _other_side(quantity, value, 1.0) if shift else _flips(column, row, verdict, context)
            found = FLIPS if turns else INCONSISTENT
        audit.findings.append(
            make(audit.file, column, row, quantity, value, found, reading.formula(row + shift), reading.note)
        )


def make(
    file: str, column: Column, row: int, quantity: Quantity, value: Span, found: str, formula: str, note: str
) -> Finding:
    """Make a finding of a cell, in the unit that it is printed in."""
    unit = quantity.scale
    name = one_line(column.heading, _LONGEST) or f"column {column.index + 1}"
    return Finding(
        file,
        column.cells[row].line,
        name,
        row + 1,
        one_line(column.cells[row].text, _LONGEST),
        quantity.number,
        float(f"{value.middle / unit:.7g}"),
        (float(f"{value.low / unit:.7g}"), float(f"{value.high / unit:.7g}")),
        found,
        formula,
        note if found not in (CONSISTENT, TRUNCATED) or "less time" in note else "",
    )


def _flips(column: Column, row: int, verdict: Verdict, context: ratios.Context) -> bool:
    """Whether a wrong number also turns the conclusion: faster or slower, above or below linear, the best row."""
    quantity, value = column.values[row], verdict.reading.values[row]
    if quantity is None or value is None:
        return False
    limits = [1.0] if column.role in (Role.SPEEDUP, Role.SLOWDOWN) else []
    if column.role is Role.CHANGE:
        limits = [0.0]
    elif column.role is Role.EFFICIENCY:
        limits = [100.0 if column.percent else 1.0]
    elif column.role is Role.SPEEDUP and not column.percent and context.counts:
        base = verdict.reading.bases[row] if verdict.reading.bases else None
        own = context.counts[0][base] if base is not None else 1.0
        count = context.counts[0][row]
        limits += [count / own] if count and own else []
    elif column.role is Role.SPEEDUP and column.percent:
        limits = [0.0] if "- 1" in verdict.reading.formula(row) else [100.0]
    return any(_other_side(quantity, value, limit) for limit in limits) or _best_changes(column, row, verdict)


def _other_side(quantity: Quantity, value: Span, limit: float) -> bool:
    return (quantity.low > limit > value.high) or (quantity.high < limit < value.low)


def _best_changes(column: Column, row: int, verdict: Verdict) -> bool:
    """Whether another row is the best once this number is right, among the rows with the same baseline."""
    bases = verdict.reading.bases or (None,) * len(column.values)
    mine = verdict.reading.values[row]
    others = [
        quantity
        for other, quantity in enumerate(column.values)
        if quantity and other != row and bases[other] == bases[row] and other not in verdict.reading.same
    ]
    printed = column.values[row]
    if not others or not mine or not printed or column.role not in (Role.SPEEDUP, Role.RATE):
        return False
    first = max(others, key=lambda one: one.value)
    return (printed.low > first.high and mine.high < first.low) or (printed.high < first.low and mine.low > first.high)
