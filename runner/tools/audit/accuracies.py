"""Accuracies as what they are, a whole number of samples, k of all N: in tables and in running text.

N is printed with k, or said somewhere, or follows from an accuracy whose last shard was padded.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runner.tools.audit.columns import Column
from runner.tools.audit.findings import GRADES, Finding, Place, cell_of, finding
from runner.tools.audit.formulas import Context
from runner.tools.audit.quantities import Quantity, plain, read
from runner.tools.audit.roles import Role
from runner.tools.audit.spans import CONSISTENT, INCONSISTENT, Span, exact, grade
from runner.tools.audit.tables import Table

_MEANS = ("mean", "avg", "average", "平均", "±", "macro", "weighted", "balanced", "ensemble", "f1")
_DIGITS = 8
_LARGEST = 100_000_000
_SHARP = 1.1e-5
"""The rounding of an accuracy that may show its number of samples: three decimals of a percentage."""
_PAIR = r"(?P<k>\d[\d,]*)\s*(?:/|of|out of|中|／)\s*(?P<n>\d[\d,]*)"
_SHARE = r"(?P<share>\d{1,3}(?:[.,]\d+)?)\s*%"
_IN_CELL = (
    re.compile(rf"{_SHARE}\s*[(\[]\s*{_PAIR}\s*[)\]]", re.IGNORECASE),
    re.compile(rf"(?<![\d.,/]){_PAIR}\s*(?:=|≈|(?P<open>[(\[]))\s*{_SHARE}(?(open)\s*[)\]])", re.IGNORECASE),
)
_NO_COUNT = re.compile(
    r"(?:epochs?|steps?|iter\w*|checkpoints?|ckpt|ranks?|layers?|rounds?|folds?|stages?|days?|pages?|parts?|shards?)\W*$",
    re.IGNORECASE,
)
"""What stands before `45/90 (76.1%)` where that is a place, not a share."""
_COUNTED = re.compile(rf"^{_SHARE}\s*\(\s*(?P<k>\d[\d,]*)\s*\)$")
_THING = r"(?:samples?|images?|sentences?|examples?|instances?|reviews?|questions?|documents?|pictures?|条|张|个|份|例)"
_TESTED = r"(?:test|validation|eval(?:uation)?|dev|测试|验证)"
_SET = r"(?:test|validation|evaluation|dev)[- ]?(?:set|split|data)?\w*\s*(?:\(|:|=|of|has|with|contains|size|is)+"
_SAID = (
    re.compile(rf"(\d[\d,]*)\s*(?:个|条|张)?\s*(?:held[- ]out |unseen )?{_TESTED}\w*[- ]?{_THING}", re.IGNORECASE),
    re.compile(rf"{_SET}\s*(?:=|of|:|is)?\s*(\d[\d,]*)\s*(?={_THING}|\)|,|\.|;|$)", re.IGNORECASE),
    re.compile(
        rf"(?:测试集|验证集|测试样本|测试数据)\D{{0,8}}?(\d[\d,]*)\s*(?={_THING}|，|。|）|\)|,|$)", re.IGNORECASE
    ),
    re.compile(r"(?<![A-Za-z])n\s*=\s*(\d[\d,]*)(?![\d,]*\s*(?:runs|seeds|trials|folds|repe))", re.IGNORECASE),
    re.compile(rf"\bof (?:the )?(\d[\d,]*) (?:\w+ )?{_THING}", re.IGNORECASE),
)


def check(table: Table, columns: Sequence[Column], context: Context, file: str) -> list[Finding]:
    """Check every accuracy of a table that says how many samples it is of."""
    found = [checked for column in columns if not column.inner for checked in _in_cells(column, file)]
    for column in columns:
        if column.role is Role.ACCURACY and not any(word in plain(column.heading).lower() for word in _MEANS):
            found += _column(column, context, table, file)
    return found


def check_shares(place: Place, text: str) -> list[Finding]:
    """Check each percentage of a text that stands with its counts: `98.7% (1053 of 1067)`."""
    return [_of_counts(place, *share) for share in _shares_in(text)]


def check_padding(accuracies: Sequence[tuple[Place, Quantity, int]], unit: float) -> list[Finding]:
    """Check whether some accuracies, each of a number of processes, count samples twice, which pad the last shard.

    All are of N samples then, or of N made divisible by the processes. That needs digits enough: two accuracies without
    such a bond make a pair by chance in about 1 of 1,000 cases.
    """
    widths = sorted((value.high - value.low) / unit for _, value, _ in accuracies)
    if len(widths) < 2 or widths[0] <= 0 or widths[-1] > _SHARP or not any(count == 1 for _, _, count in accuracies):
        return []
    most = int(min(20_000, (0.003 / (widths[-1] * widths[-2])) ** (1 / 3)))
    for total in range(2, most + 1):
        if all(_samples(value, total, count, unit) for _, value, count in accuracies):
            is_plain = all(_fits(value, total, unit) is not None for _, value, _ in accuracies)
            return [] if is_plain else _counted_twice(accuracies, unit, total)
    return []


def _samples(printed: Quantity, total: int, processes: int, unit: float) -> int | None:
    """Return how many samples an accuracy is of: all, all made divisible by the processes, or None if it is neither."""
    padded = -(-total // processes) * processes
    return next((number for number in (total, padded) if _fits(printed, number, unit) is not None), None)


def _counted_twice(accuracies: Sequence[tuple[Place, Quantity, int]], unit: float, total: int) -> list[Finding]:
    found = []
    for place, value, processes in accuracies:
        _, computed, count = _of_total(value, total, unit)
        samples = _samples(value, total, processes, unit) or total
        twice = f"{samples - total} of {total} samples counted twice by {processes} processes"
        note = f"no k / {total} gives it; it is {_fits(value, samples, unit)} / {samples}: {twice}"
        grade, words = (CONSISTENT, "") if samples == total else (INCONSISTENT, note)
        found.append(finding(place, value, computed, grade, f"{count} / {total}", words, _DIGITS))
    return found


def _in_cells(column: Column, file: str) -> Iterator[Finding]:
    """Check cells that hold both: `98.7% (1053 of 1067)`."""
    total = 0
    if _NO_COUNT.search(plain(column.heading)):
        return
    for row, cell in enumerate(column.cells):
        for share in _shares_in(cell.text, total):
            total = share.total
            yield _of_counts(cell_of(file, column, row), *share)


def _of_counts(place: Place, printed: Quantity, correct: float, total: float, unit: float = 100.0) -> Finding:
    value = exact(correct / total * unit)
    return finding(place, printed, value, grade(printed, value), f"{correct:.12g} / {total:.12g}", digits=_DIGITS)


def _column(column: Column, context: Context, table: Table, file: str) -> list[Finding]:
    exact_ones = [(row, value) for row, value in enumerate(column.values) if value and not value.spread]
    rows = [(row, value) for row, value in exact_ones if 0 <= value.number <= column.unit]
    corrects, totals = context.of(Role.CORRECT), context.of(Role.TOTAL)
    own = [value.number if value else None for value in totals[0].values] if totals else None
    if corrects:
        said = _said_totals(f"{column.heading} {table.near}")
        every = own or [float(said[0]) if said else None] * len(column.values)
        counted = [(row, value, corrects[0].values[row], every[row]) for row, value in rows]
        return [
            _of_counts(cell_of(file, column, row), value, count.number, total, column.unit)
            for row, value, count, total in counted
            if total and count and count.number <= total
        ]
    if own:
        return _whole(column, rows, own, file)
    for words, most in ((column.heading, 1.0), (table.near, 0.5)):
        tries = [_whole(column, rows, [total] * len(column.values), file, most) for total in _said_totals(words)[:4]]
        best = min(filter(None, tries), key=lambda found: sum(checked.wrong for checked in found), default=None)
        if best:
            return best
    # One number of samples may explain the whole column, if some accuracies count samples twice.
    counts = context.processes.first or [None] * len(column.values)
    known = [(cell_of(file, column, row), value, int(counts[row] or 0)) for row, value in rows if counts[row]]
    return check_padding(known, column.unit)


def _whole(
    column: Column, rows: list[tuple[int, Quantity]], totals: Sequence[float | None], file: str, most: float = 0.0
) -> list[Finding]:
    """Check that every accuracy is a whole number of its samples.

    Where the samples are not those of a column, some have to fit: `most` wrong ones for each that does.
    """
    result = []
    for row, value in rows:
        total = totals[row]
        if total is None or total != int(total) or not 2 <= total <= _LARGEST:
            continue
        got, computed, count = _of_total(value, int(total), column.unit)
        note = "" if got == CONSISTENT else f"no whole number of {int(total)} gives it"
        formula = f"{count} / {int(total)}"
        result.append(finding(cell_of(file, column, row), value, computed, got, formula, note, _DIGITS))
    wrong = sum(checked.grade == INCONSISTENT for checked in result)
    right = len(result) - wrong
    # If none fits, the numbers are means, or of other samples.
    enough = right and wrong <= most * right if most else right >= wrong or len(result) <= 2
    return result if enough else []


class _Share(NamedTuple):
    """A percentage printed with the counts behind it."""

    printed: Quantity
    correct: int
    total: int


def _shares_in(text: str, total: int = 0) -> list[_Share]:
    """Find percentages with their counts, `98.7% (1053 of 1067)`; `total` is that of a cell without one."""
    text = plain(text)
    pairs = [(found, _whole_number(found["n"])) for pattern in _IN_CELL for found in pattern.finditer(text)]
    pairs += [(found, total) for found in _COUNTED.finditer(text) if total]
    result = []
    for found, of in pairs:
        share, count = read(found["share"].replace(",", ".") + "%"), _whole_number(found["k"])
        if share and 0 <= count <= of <= _LARGEST and of and not _NO_COUNT.search(text[: found.start()]):
            result.append(_Share(share, count, of))
    return result


def _whole_number(text: str) -> int:
    """Read an integer with or without separators."""
    digits = re.sub(r"\D", "", text)
    return int(digits) if 0 < len(digits) < 12 else _LARGEST + 1


def _said_totals(text: str) -> list[int]:
    """Return the numbers of test samples that a text states."""
    found = [_whole_number(match[1]) for pattern in _SAID for match in pattern.finditer(plain(text[:20_000]))]
    return [total for total in dict.fromkeys(found) if 10 <= total <= _LARGEST]


def _of_total(printed: Quantity, total: int, unit: float) -> tuple[str, Span, int]:
    """Grade a printed share by the nearest k / total; return the grade, that share in the printed unit, and k."""
    near = printed.number / unit * total
    results = []
    for count in {math.floor(near), math.ceil(near), math.ceil(near) + 1}:
        if 0 <= count <= total:
            value = count / total * unit
            found = grade(printed, exact(value))
            results.append((GRADES.index(found), abs(value - printed.number), found, value, count))
    _, _, found, value, count = min(results)
    return found, exact(value), count


def _fits(printed: Quantity, total: int, unit: float) -> int | None:
    """Return k if k / total rounds to what is printed."""
    low, high = printed.low / unit * total, printed.high / unit * total
    count = math.ceil(low - 1e-9 * total)
    return count if 0 <= count <= min(total, high + 1e-9 * total) else None
