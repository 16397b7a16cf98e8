"""Rows that hold means of the rows around them: geometric, harmonic and arithmetic means, and medians."""

import math
import re
import statistics
from collections.abc import Callable, Iterator, Sequence

from runner.tools.audit.columns import NAMING, Column
from runner.tools.audit.quantities import Quantity, plain
from runner.tools.audit.spans import INCONSISTENT, Span, grade, ratio

_KINDS = (
    (
        "geometric mean",
        re.compile(r"geo(?:m(?:etric)?)?\.?[- ]?(?:mean|average|avg)|\bg-?mean\b|几何平均", re.IGNORECASE),
    ),
    ("harmonic mean", re.compile(r"harm(?:onic)?\.?[- ]?(?:mean|average)|\bh-?mean\b|调和平均", re.IGNORECASE)),
    ("median", re.compile(r"^\W*median\b|\bmedian\W*$|中位", re.IGNORECASE)),
    ("mean", re.compile(r"^\W*(?:arith\w*\W*)?(?:mean|average|avg)\b|\b(?:mean|average|avg)\W*$|平均", re.IGNORECASE)),
    (
        "spread",
        re.compile(
            r"^\W*(?:std\.?|std\.? ?dev\w*|st(?:andar)?d\.? deviation|sd|σ|stdev|var(?:iance)?|min(?:imum)?"
            r"|max(?:imum)?|range|p\d\d|best|worst)\W*$",
            re.IGNORECASE,
        ),
    ),
    ("total", re.compile(r"^\W*(?:total|sum|overall|all|summary|合计|总计)\W*$", re.IGNORECASE)),
)
Graded = tuple[str, Span, str]
"""A grade, what follows, and from what."""
_FEWEST = 2
_MEANS: dict[str, Callable[[Sequence[float]], float]] = {
    "geometric mean": lambda numbers: math.exp(sum(map(math.log, numbers)) / len(numbers)),
    "harmonic mean": lambda numbers: len(numbers) / sum(1 / number for number in numbers),
    "median": statistics.median,
    "mean": lambda numbers: sum(numbers) / len(numbers),
}
_STATED = ("geometric mean", "harmonic mean", "median")
OPEN = ("mean", "spread")
"""Kinds of rows whose own times need not give their number: a mean of ratios is no ratio of means."""


def mean_rows(columns: Sequence[Column]) -> dict[int, str]:
    """Return the rows whose label says that they hold means, with the kind of mean."""
    found: dict[int, str] = {}
    for column in columns:
        if column.role not in NAMING:
            continue
        for row, cell in enumerate(column.cells):
            kind = next((kind for kind, pattern in _KINDS if pattern.search(plain(cell.text[:60]))), "")
            if kind:
                found.setdefault(row, kind)
    return found if len(found) < max((len(column.cells) for column in columns), default=0) else {}


def grade_mean(
    printed: Quantity, column: Column, row: int, kinds: dict[int, str], bases: Sequence[Column]
) -> Graded | None:
    """Grade the number of a row of means; None if it cannot be checked.

    Every kind of mean may confirm it; only one whose kind is stated is called wrong.
    """
    if kinds[row] == "spread":
        return None
    others = [other for other in range(len(column.values)) if other not in kinds]
    above = max((other for other in kinds if other < row), default=-1)
    below = min((other for other in kinds if other > row), default=len(column.values))
    # A mean may be of all rows, of those above it as far as the next mean, or of those below it.
    between = [other for other in others if above < other < row], [other for other in others if row < other < below]
    tries = (each for rows in (others, *between) for each in _candidates(column, rows, kinds[row], bases))
    found = [(grade(printed, value), value, formula) for value, formula in tries]
    fitting = next((graded for graded in found if graded[0] != INCONSISTENT), None)
    if fitting or not found:
        return fitting
    first = found[0]
    return first if kinds[row] in _STATED and first[2].startswith(kinds[row]) else None


def _candidates(column: Column, rows: Sequence[int], kind: str, bases: Sequence[Column]) -> Iterator[tuple[Span, str]]:
    values = [value for row in rows if (value := column.values[row])]
    if len(values) < _FEWEST or any(value.low <= 0 for value in values):
        return
    for name in sorted(_MEANS, key=lambda name: name != kind):
        mean = _MEANS[name]
        low, middle, high = (mean([getattr(value, end) for value in values]) for end in ("low", "value", "high"))
        yield Span(low, middle, high), f"{name} of {len(values)} rows"
    sums = [(base, _sum(base, rows)) for base in bases]
    for first, above in sums:
        for second, below in sums:
            found = ratio(above, below) if first is not second and first.role is second.role else None
            if found:
                words = f"sum of {plain(first.heading)[:40]} / sum of {plain(second.heading)[:40]}"
                yield found.times(column.unit), words
                yield found.plus(-1).times(column.unit), f"{words} - 1"


def _sum(column: Column, rows: Sequence[int]) -> Span | None:
    known = [value for row in rows if (value := column.values[row]) and value.low > 0]
    if not known or len(known) < len(rows):
        return None
    return Span(*(sum(getattr(value, end) for value in known) for end in ("low", "value", "high")))
