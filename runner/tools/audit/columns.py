"""The columns of a table, each with its role and its numbers, and those that a derived column may follow from."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import median

from runner.core.text import one_line
from runner.tools.audit.quantities import Quantity, devices, is_missing, plain, read_cell
from runner.tools.audit.roles import Role, assumed, heading_unit, is_explicit, role_of
from runner.tools.audit.spans import Ratios, scaled, span
from runner.tools.audit.tables import LONGEST_CELL, Cell, Table

_BY_KIND = {"time": Role.TIME, "rate": Role.RATE, "factor": Role.SPEEDUP}
_MOST = 8
_MOST_ADDED = 4
_SPREAD = re.compile(r"std|dev(?:iation)?\b|误差|varian|\bci\b|interval|error|±", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])\d+(?:\.\d{3})*,(?:\d{1,2}|\d{4,})(?![\d,])|(?<!\d)0,\d|\d\.\d{3},\d")
_DECIMAL_POINT = re.compile(r"(?<![\d.,])\d+(?:,\d{3})*\.(?:\d{1,2}|\d{4,})(?![\d.])|(?<!\d)0\.\d|\d,\d{3}\.\d")
LONGEST = 80
"""Characters of a text that a finding shows."""
_HALF = 0.5
_THOUSAND = 1_000
DERIVED = (Role.SPEEDUP, Role.SLOWDOWN, Role.CHANGE, Role.EFFICIENCY)
NAMING = (Role.LABEL, Role.COUNT, Role.UNKNOWN, Role.OTHER, Role.BATCH)
"""What may say which run a row is."""


@dataclass(frozen=True)
class Column:
    """A column: what it holds, and in each row the number or None.

    `percent` says that the numbers are percentages, `explicit` that the heading is beyond doubt, and `inner` that they
    stand in parentheses in the cells of the column `index`.
    """

    index: int
    heading: str
    role: Role
    cells: tuple[Cell, ...]
    values: tuple[Quantity | None, ...]
    percent: bool = False
    explicit: bool = False
    inner: bool = False

    @property
    def name(self) -> str:
        """The heading, fit for a line, or the number of the column."""
        return one_line(self.heading, LONGEST) or f"column {self.index + 1}"

    @property
    def unit(self) -> float:
        """What is printed for a ratio of one."""
        return 100.0 if self.percent else 1.0

    @cached_property
    def spans(self) -> Ratios:
        """The intervals of its numbers."""
        return [span(value) if value else None for value in self.values]

    @cached_property
    def shares(self) -> Ratios:
        """The intervals of its numbers, of percentages as shares."""
        return scaled(self.spans, 1 / self.unit)

    @cached_property
    def ones(self) -> frozenset[int]:
        """The rows that print that they are the baseline: exactly 1, 100%, or a change of 0%."""
        exact = 0.0 if self.role is Role.CHANGE else self.unit
        known = ((row, value) for row, value in enumerate(self.values) if value)
        return frozenset(row for row, value in known if value.number == exact and not value.about)

    def known(self) -> int:
        """Return how many of its cells hold a number."""
        return sum(value is not None for value in self.values)


def locales(table: Table) -> list[bool]:
    """Return whether decimals follow a comma: the readings of the numbers that are possible, the likely one first."""
    texts = [cell.text for row in table.rows for cell in row if len(cell.text) <= LONGEST_CELL]
    commas = sum(bool(_DECIMAL_COMMA.search(plain(text))) for text in texts)
    points = sum(bool(_DECIMAL_POINT.search(plain(text))) for text in texts)
    if commas != points:
        return [commas > points]
    groups = any(re.search(r"\d[.,]\d{3}(?!\d)", text) for text in texts)
    return ([True, False] if table.comma else [False, True]) if groups else [False]


def columns_of(table: Table, *, comma: bool) -> list[Column]:
    """Read all columns; one whose cells have a second number in parentheses gives two."""
    result: list[Column] = []
    for index, heading in enumerate(table.headings):
        cells = tuple(row[index] for row in table.rows)
        pairs = [read_cell(cell.text[:LONGEST_CELL], comma=comma) for cell in cells]
        column = _column(index, heading.text, cells, [first for first, _ in pairs])
        result.append(column)
        inner = [second for _, second in pairs]
        if column.role is not Role.LABEL and sum(map(bool, inner)) > _HALF * max(1, column.known() - 1):
            result += _inner(column, inner)
    return [_settle_n(column, result) for column in result]


def _column(index: int, heading: str, cells: tuple[Cell, ...], values: list[Quantity | None]) -> Column:
    role = role_of(heading)
    filled = [cell for cell in cells if not is_missing(cell.text)]
    counts = [devices(cell.text) for cell in cells]
    numbers = sum(value is not None for value in values)
    if role in (Role.COUNT, Role.UNKNOWN, Role.LABEL) and filled:
        named = sum(count is not None for count in counts)
        bare = sum(value is not None and not value.kind for value in values)
        if named > bare or (role is Role.COUNT and named >= _HALF * len(filled)):
            read = tuple(Quantity(count, 1.0, 0.0) if count else None for count in counts)
            return Column(index, heading, Role.COUNT if named >= _HALF * len(filled) else Role.LABEL, cells, read)
    if not filled or numbers <= _HALF * len(filled) or role is Role.COUNT:
        return Column(index, heading, Role.LABEL, cells, (None,) * len(cells))
    kind, scale = heading_unit(heading)
    if role in (*DERIVED, Role.UNKNOWN) and {value.kind for value in values if value} & {"factor", "percent", ""}:
        # Factors and percentages with words that are not known, such as `1.2x slower`, stand beside ones without.
        values = [None if value and value.kind == "other" else value for value in values]
    kinds = Counter(value.kind for value in values if value)
    usual = kinds.most_common(1)[0][0] or (kind if kind in ("percent", "factor") else "")
    role = _by_cells(role, usual)
    if role in DERIVED and usual in ("factor", "percent"):  # `1.25x` among percentages is another thing
        values = [None if value and value.kind not in ("", usual) else value for value in values]
    if role in (Role.TIME, Role.RATE):
        if kind in ("time", "rate"):  # a number without a unit has that of the heading
            values = [
                replace(value, scale=value.scale * scale, step=value.step * scale, kind=kind)
                if value and not value.kind
                else value
                for value in values
            ]
        values = _coarse(values)
    percent = usual == "percent"
    if role in (Role.EFFICIENCY, Role.ACCURACY) and not percent:
        percent = median(value.number for value in values if value) > (2.5 if role is Role.EFFICIENCY else 1)
    return Column(index, heading, role, cells, tuple(values), percent, is_explicit(heading))


def _by_cells(role: Role, kind: str) -> Role:
    """Correct the role that a heading names by the unit of the cells."""
    if role in (Role.UNKNOWN, Role.TIME, Role.RATE, Role.SAMPLES) and kind in _BY_KIND:
        return _BY_KIND[kind]
    if role in (Role.TIME, Role.RATE) and kind == "percent":
        return Role.OTHER
    if role in DERIVED and kind in ("time", "rate"):
        return _BY_KIND[kind]
    if role is Role.CHANGE and kind == "factor":
        return Role.SPEEDUP
    if kind == "other" and role not in (Role.RATE, Role.SAMPLES, Role.BATCH, Role.TOTAL):
        return Role.OTHER
    return role


def _coarse(values: list[Quantity | None]) -> list[Quantity | None]:
    """Take numbers that all end in zeros, for example 12,300 and 45,600, as rounded to what is before these."""
    numbers = [value.number for value in values if value]
    if len(numbers) < 3 or any(number < _THOUSAND or number % 10 for number in numbers):
        return values
    digit = 10.0
    while min(numbers) >= digit * _THOUSAND and not any(number % (digit * 10) for number in numbers):
        digit *= 10
    return [value and replace(value, step=max(value.step, digit * value.scale)) for value in values]


def _inner(column: Column, values: list[Quantity | None]) -> list[Column]:
    kind = Counter(value.kind for value in values if value).most_common(1)[0][0]
    words = column.heading.lower()
    role = _BY_KIND.get(kind, Role.UNKNOWN)
    if kind == "percent" and column.role in (Role.SPEEDUP, Role.TIME, Role.RATE):
        role = Role.EFFICIENCY if re.search("eff|效率", words) else Role.CHANGE
    if kind == "" and re.search("speed[- ]?up|加速比", words) and column.role is not Role.SPEEDUP:
        role = Role.SPEEDUP
    if role is Role.UNKNOWN:
        return []
    kept = tuple(value if value and value.kind == kind else None for value in values)
    return [Column(column.index, column.heading, role, column.cells, kept, kind == "percent", inner=True)]


def _settle_n(column: Column, columns: list[Column]) -> Column:
    """Decide what a column `N` counts: samples that were tested, or processes."""
    if column.role is not Role.TOTAL or plain(column.heading).strip("# ").lower() not in ("n", "total"):
        return column
    large = min((value.number for value in column.values if value), default=0) >= 50
    is_one = len({value.number for value in column.values if value}) == 1
    roles = {source.role for source in columns}
    if large and (Role.CORRECT in roles or (Role.ACCURACY in roles and is_one)):
        return column
    return replace(column, role=Role.OTHER if any(source.role is Role.COUNT for source in columns) else Role.COUNT)


def turned(table: Table) -> Table | None:
    """Return a table whose rows are metrics with its rows as columns; None if its first column names none."""
    roles = [role_of(row[0].text) for row in table.rows if row and row[0].text]
    derived = sum(role in DERIVED for role in roles)
    bases = sum(role in (Role.TIME, Role.RATE, *DERIVED) for role in roles)
    if not derived or bases < 2 or len(table.rows) > 60:
        return None
    if any(role_of(heading.text) in DERIVED for heading in table.headings[1:]):
        return None
    headings = (table.headings[0], *(row[0] for row in table.rows))
    _, *rows = zip(table.headings, *table.rows, strict=True)
    return Table(headings, tuple(rows), table.near, table.comma)


def comparable(column: Column, others: Sequence[Column]) -> list[Column]:
    """Return the columns that a column may follow from: a theoretical one follows from no measured one."""
    word = assumed(column.heading)
    return [other for other in others if assumed(other.heading) == word] if word else list(others)


def numbers(column: Column, columns: Sequence[Column]) -> list[Column]:
    """Return columns of measures of any kind, of which a change may be printed: accuracies, memory, times."""
    roles = (Role.TIME, Role.RATE, Role.ACCURACY, Role.OTHER, Role.UNKNOWN)
    return comparable(column, [source for source in columns if source.role in roles and not source.inner])[:_MOST]


def measured(column: Column, columns: Sequence[Column]) -> list[Column]:
    """Return the times and throughputs that a column may follow from, the nearest first."""
    found = comparable(column, [source for source in columns if source.role in (Role.TIME, Role.RATE)])[:_MOST]
    return sorted(found, key=lambda source: (source.index > column.index, abs(source.index - column.index)))


def of_another_role(column: Column, columns: Sequence[Column]) -> list[Column]:
    """Return columns whose headings have a unit of time, but name something else: `Cost (GPU-min)`."""
    roles = (Role.OTHER, Role.ACCURACY, Role.COUNT, Role.SAMPLES, Role.BATCH, Role.TOTAL)
    found = []
    for source in columns:
        kinds = {value.kind for value in source.values if value}
        is_time = kinds == {"time"} or (kinds == {""} and heading_unit(source.heading)[0] == "time")
        if is_time and source.role in roles and not source.inner and not _SPREAD.search(plain(source.heading)):
            found.append(replace(source, role=Role.TIME))
    return comparable(column, found)[:_MOST_ADDED]


def added(columns: Sequence[Column]) -> Iterator[Column]:
    """Yield the sums of time columns of one unit, for example of training and evaluation."""
    times = [source for source in columns if source.role is Role.TIME and not source.inner][:_MOST_ADDED]
    for size in range(len(times), 1, -1):
        for some in combinations(times, size):
            if len({(value.kind, value.scale, value.per) for part in some for value in part.values if value}) == 1:
                yield _sum(some)


def _sum(columns: Sequence[Column]) -> Column:
    cells: list[Cell] = []
    sums: list[Quantity | None] = []
    for row, cell in enumerate(columns[0].cells):
        known = [value for source in columns if (value := source.values[row])]
        total = None
        if len(known) == len(columns):
            number, step = sum(value.number for value in known), sum(value.step for value in known)
            total = replace(known[0], number=number, step=step, spread=0.0)
        sums.append(total)
        cells.append(Cell(f"{total.number:.7g}" if total else "", cell.line))
    heading = " + ".join(source.heading for source in columns)
    return replace(columns[0], heading=heading, cells=tuple(cells), values=tuple(sums))
