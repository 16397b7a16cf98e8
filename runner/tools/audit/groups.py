"""Which row a row is compared with: rows in groups, and a baseline in each group."""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from runner.tools.audit.columns import NAMING, Column
from runner.tools.audit.quantities import is_missing, plain, says_baseline
from runner.tools.audit.roles import Role

Groups = tuple[int, ...]
"""The group of each row, numbered by first appearance."""
Bases = tuple["int | None", ...]
"""The row that each row is compared with."""
_KEYS = 6
_MOST_VALUES = 12
_MOST_MAPS = 600
_MANY_ROWS = 100
_COUNT = re.compile(
    r"(?<![\w.])\d{1,5}\s?[x×*]\s?(?=[a-z])|\s?[x×*]\s?\d{1,5}$|\d+\s*(?:gpus?|cards?|卡|张|nodes?|节点|台|机)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Comparison:
    """A way to choose baselines. `anchored`: every baseline prints that it is one; `rank`: how far-fetched it is."""

    bases: Bases
    rank: int
    anchored: bool = False

    @property
    def same(self) -> frozenset[int]:
        """The rows that are compared with themselves."""
        return frozenset(row for row, base in enumerate(self.bases) if base == row)


def groupings(columns: Sequence[Column], rows: int) -> list[Groups]:
    """Return the ways to part the rows, the plainest first: not at all, by labels and parameters, by blocks."""
    found = {(0,) * rows: None}
    names: dict[tuple[str, ...], Role] = {}
    for column in columns:
        if not column.inner and column.role in (*NAMING, Role.SAMPLES):
            for label in _labels(column):
                if 1 < len(set(label)) < rows:
                    names.setdefault(label, column.role)
    plain_keys = [label for label, role in names.items() if role is not Role.COUNT]
    blocks = [_restarts(column) for column in columns if column.role is Role.COUNT]
    keyed = [tuple(zip(*some, strict=True)) for size in (1, 2) for some in combinations([*names][:_KEYS], size)]
    if len(plain_keys) > 2:
        keyed.append(tuple(zip(*plain_keys, strict=True)))
        keyed += [tuple(zip(*some, strict=True)) for some in combinations(plain_keys[:_KEYS], 3)]
    for key in [*keyed, *blocks]:
        places = {part: place for place, part in enumerate(dict.fromkeys(key))}
        found.setdefault(tuple(places[part] for part in key))
    return list(found)


def _labels(column: Column) -> Iterator[tuple[str, ...]]:
    """Return the texts of a column, an empty one as the one above it; and the same without counts of devices."""
    texts: list[str] = []
    for cell in column.cells:
        text = plain(cell.text).strip("*_` ").lower()
        texts.append(texts[-1] if not text and texts and column.role is Role.LABEL else text)
    yield tuple(texts)
    bare = tuple(" ".join(_COUNT.sub("", text).split()) for text in texts)
    if bare != tuple(texts):
        yield bare


def _restarts(column: Column) -> tuple[int, ...]:
    """Begin a new group where the number of processes goes down."""
    group, before, result = 0, 0.0, []
    for value in column.values:
        number = value.number if value else before
        group += number < before
        result.append(group)
        before = number
    return tuple(result)


def comparisons(columns: Sequence[Column], derived: Column) -> list[Comparison]:
    """Return the ways to choose a baseline for every row of a derived column, the plainest first."""
    rows = len(derived.cells)
    # The rows that print that they are one: 1.00, 100%, or the word baseline.
    said = [any(says_baseline(column.cells[row].text) for column in columns) for row in range(rows)]
    marks = [row in derived.ones or said[row] for row in range(rows)]
    missing = [is_missing(cell.text) for cell in derived.cells]
    count = next((column for column in columns if column.role is Role.COUNT), None)
    found: dict[Bases, Comparison] = {}
    parts = groupings(columns, rows)
    for depth, groups in enumerate(parts):
        members = [[row for row in range(rows) if groups[row] == group] for group in range(max(groups) + 1)]
        for rank, (chosen, anchored) in enumerate(_chosen(members, marks, missing, count, derived)):
            bases = tuple(chosen[group] for group in groups)
            rank_here = min(depth, 5) * 3 + rank
            if any(base is not None for base in bases) and bases not in found:
                found[bases] = Comparison(bases, rank_here, anchored)
        if len(found) > _MOST_MAPS:
            break
    before = tuple(row - 1 if row else None for row in range(rows))
    named = _named(columns, parts, rows) if rows <= _MANY_ROWS else ()
    for extra in (*_nearest(marks), before, *named):
        if len(found) <= 2 * _MOST_MAPS:
            found.setdefault(extra, Comparison(extra, 30))
    return sorted(found.values(), key=lambda way: way.rank)


def _chosen(
    members: list[list[int]], marks: list[bool], missing: list[bool], count: Column | None, derived: Column
) -> Iterator[tuple[list[int | None], bool]]:
    """Yield the baseline of each group by one rule after the other."""
    marked = [next((row for row in rows if marks[row]), None) for rows in members]
    # Sure: every group has one marked row, and no other row is marked.
    yield marked, None not in marked and sum(marks) == len(members)
    absent = [next((row for row in rows if missing[row]), None) for rows in members]
    gaps = not any(marks) and None not in absent and sum(missing) == len(members)
    if count:
        known = [[(value.number, row) for row in rows if (value := count.values[row])] for rows in members]
        fewest = [min(own)[1] if own else None for own in known]
        yield fewest, gaps and fewest == absent
    yield [rows[0] for rows in members], gaps and absent == [rows[0] for rows in members]
    yield absent, gaps
    yield [rows[-1] for rows in members], False
    order = [value.number if value else math.inf for value in derived.values]
    yield [min(rows, key=lambda row: order[row]) for rows in members], False
    if len({len(rows) for rows in members}) == 1:
        for place in range(1, min(len(members[0]), 5) - 1):
            yield [rows[place] for rows in members], False


def _nearest(marks: list[bool]) -> Iterator[Bases]:
    """Compare with the nearest marked row above, or below."""
    rows = range(len(marks))
    marked = [row for row in rows if marks[row]]
    yield tuple(marked[place - 1] if (place := bisect_right(marked, row)) else None for row in rows)
    yield tuple(marked[place] if (place := bisect_left(marked, row)) < len(marked) else None for row in rows)


def _named(columns: Sequence[Column], parts: list[Groups], rows: int) -> Iterator[Bases]:
    """Compare with the row of the same group that has a certain label, for example the backend `gloo`."""
    for column in columns:
        if column.role not in NAMING:
            continue
        label = next(iter(_labels(column)))
        for value in list(dict.fromkeys(label))[:_MOST_VALUES]:
            for groups in parts[:12]:
                base = {groups[row]: row for row in reversed(range(rows)) if label[row] == value}  # the first one
                yield tuple(base.get(group) for group in groups)
