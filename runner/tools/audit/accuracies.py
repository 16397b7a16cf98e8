"""Accuracies of a table: with printed counts, of a number of samples that is said, or with padded shards."""

from __future__ import annotations

from collections.abc import Sequence

from runner.core.text import one_line
from runner.tools.audit import shares
from runner.tools.audit.columns import Column
from runner.tools.audit.findings import Finding
from runner.tools.audit.quantities import Quantity, plain
from runner.tools.audit.roles import Role
from runner.tools.audit.shapes import Context
from runner.tools.audit.spans import CONSISTENT, INCONSISTENT, Span, grade
from runner.tools.audit.tables import Table

_MEANS = ("mean", "avg", "average", "平均", "±", "macro", "weighted", "balanced", "ensemble", "f1")


def check(table: Table, columns: Sequence[Column], context: Context, file: str) -> list[Finding]:
    """Check every accuracy of a table that says how many samples it is of."""
    found = _in_cells(table, file)
    for column in columns:
        if column.role is Role.ACCURACY and not any(word in plain(column.heading).lower() for word in _MEANS):
            found += _column(column, context, table, file)
    return found


def _in_cells(table: Table, file: str) -> list[Finding]:
    """Check cells that hold both: `98.7% (1053 of 1067)`."""
    result = []
    for index, heading in enumerate(table.headings):
        total = None
        for number, row in enumerate(table.rows):
            for share in shares.shares_in(row[index].text, total):
                total = share.total
                value = share.correct / share.total * 100
                computed = Span(value, value, value)
                formula = f"{share.correct} / {share.total}"
                name = one_line(heading.text, 80) or f"column {index + 1}"
                text = one_line(row[index].text, 80)
                line, got = row[index].line, grade(share.printed, computed)
                result.append(_finding(file, line, name, number + 1, text, share.printed, value, got, formula))
    return result


def _finding(
    file: str,
    line: int,
    name: str,
    row: int,
    text: str,
    printed: Quantity,
    value: float,
    got: str,
    formula: str,
    note: str = "",
) -> Finding:
    value = float(f"{value:.8g}")
    return Finding(file, line, name, row, text, printed.number, value, (value, value), got, formula, note)


def _column(column: Column, context: Context, table: Table, file: str) -> list[Finding]:
    unit = 100.0 if column.percent else 1.0
    rows = [
        (row, value)
        for row, value in enumerate(column.values)
        if value and not value.spread and 0 <= value.number <= unit
    ]
    if not rows:
        return []
    corrects, totals = context.of(Role.CORRECT), context.of(Role.TOTAL)
    if corrects:
        own = [value.number if value else None for value in totals[0].values] if totals else None
        said = shares.said_totals(f"{column.heading} {table.near}")
        result = []
        for row, value in rows:
            total = own[row] if own else float(said[0]) if said else None
            count = corrects[0].values[row]
            if total and count and count.number <= total:
                share = count.number / total * unit
                got = grade(value, Span(share, share, share))
                result.append(_at(file, column, row, value, share, got, f"{count.number:g} / {total:g}"))
        return result
    if totals:
        return _whole(
            column, rows, [value.number if value else None for value in totals[0].values], unit, file, sure=True
        )
    for words, sure in ((column.heading, True), (table.near, False)):
        best: list[Finding] = []
        for total in shares.said_totals(words)[:4]:
            found = _whole(column, rows, [float(total)] * len(column.values), unit, file, sure=sure)
            if len(found) and sum(one.wrong for one in found) < (
                sum(one.wrong for one in best) if best else len(found) + 1
            ):
                best = found
        if best:
            return best
    return _padded(column, rows, context, unit, file)


def _whole(
    column: Column,
    rows: list[tuple[int, Quantity]],
    totals: Sequence[float | None],
    unit: float,
    file: str,
    *,
    sure: bool,
) -> list[Finding]:
    """Check that every accuracy is a whole number of its samples."""
    result = []
    for row, value in rows:
        total = totals[row]
        if total is None or total != int(total) or not 2 <= total <= shares.LARGEST:  # noqa: PLR2004
            continue
        got, computed, count = shares.of_total(value, int(total), unit)
        formula = f"{count} / {int(total)}"
        note = "" if got == CONSISTENT else f"no whole number of {int(total)} gives it"
        result.append(_at(file, column, row, value, computed.middle, got, formula, note))
    wrong = sum(one.grade == INCONSISTENT for one in result)
    right = len(result) - wrong
    # If none fits, the numbers are means, or of other samples.
    enough = right >= wrong or len(result) <= 2 if sure else right >= max(1, 2 * wrong)  # noqa: PLR2004
    return result if enough else []


def _at(
    file: str, column: Column, row: int, value: Quantity, share: float, got: str, formula: str, note: str = ""
) -> Finding:
    name, cell = one_line(column.heading, 80), column.cells[row]
    return _finding(file, cell.line, name, row + 1, one_line(cell.text, 80), value, share, got, formula, note)


def _padded(
    column: Column, rows: list[tuple[int, Quantity]], context: Context, unit: float, file: str
) -> list[Finding]:
    """Look for accuracies that count samples twice, which pad the last shard; the first row is of one process."""
    counts = context.processes.first
    single = [(row, value) for row, value in rows if counts and counts[row] == 1]
    result: dict[int, Finding] = {}
    for row, value in rows:
        processes = int(counts[row] or 0) if counts else 0
        for base, first in single:
            pair = shares.padded(first, value, unit, processes)
            if pair is None:
                continue
            found, larger = pair
            _, computed, count = shares.of_total(value, found, unit)
            note = padding_note(value, found, larger, processes, unit)
            result[row] = _at(file, column, row, value, computed.middle, INCONSISTENT, f"{count} / {found}", note)
            k = shares.fits(first, found, unit) or 0
            result[base] = _at(file, column, base, first, k / found * unit, CONSISTENT, f"{k} / {found}")
    return [result[row] for row in sorted(result)]


def padding_note(value: Quantity, total: int, larger: int, processes: int, unit: float) -> str:
    """Say what an accuracy with a padded shard is."""
    k = shares.fits(value, larger, unit)
    twice = f"{larger - total} of {total} samples counted twice by {processes} processes"
    return f"no k / {total} gives it; it is {k} / {larger}: {twice}"
