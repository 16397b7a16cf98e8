"""Ways to compute a column from others, and the verdict on each of its numbers.

A number is called wrong only if a reading fits the other numbers of its column, and no possible reading fits it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from runner.tools.audit.quantities import Quantity
from runner.tools.audit.spans import CONSISTENT, INCONSISTENT, TRUNCATED, Ratios, Span, grade

FAR = 10
"""From this rank on, a reading is not what a heading names."""
IN_ROWS = 12
"""The rank of readings that compare two columns of a row."""
LOOSE = 50
"""From this rank on, a reading may confirm numbers but accuses none, for example one by mean times."""
_EVIDENCE = 2.0
"""Decimal logarithm of how unlikely it has to be that the numbers that fit a reading do so by chance."""
_CHANCE = 0.3
"""Below this, what fits a far-fetched reading does so by chance, if the headings name another one."""
_RANKS_PER_DIGIT = 15.0
"""A reading of rank 15 is of a kind of which there are ten times as many as of rank 0."""
_PLAIN = 5
_CUT = 0.3
"""What a number counts less that was truncated, so that rounding is preferred."""
_SURE_ALONE = 2
"""So many numbers are called wrong by a certain reading, even if no other number fits it."""
Printed = Sequence["Quantity | None"]
"""The numbers of the rows of a column."""


@dataclass(frozen=True)
class Reading:
    """One way to compute the numbers of a column.

    `formula` says for a row what was computed from what. `bases` are the rows of comparison, `same` the rows that are
    compared with themselves. `free` counts parameters that were fitted, `rank` orders readings from plain to
    far-fetched. `certain` says that the headings name this reading and no other, `plainest` that the rows are the same
    work on more processes: if both, it holds even if none of many numbers fits. One that `confirms` accuses none.
    """

    values: Ratios
    formula: Callable[[int], str]
    rank: int
    free: int = 0
    certain: bool = False
    confirms: bool = False
    plainest: bool = False
    same: frozenset[int] = frozenset()
    bases: tuple[int | None, ...] = ()
    note: str = ""
    source: int = -1
    """The column of derived numbers that it starts from; what follows from a wrong number is not called wrong."""


@dataclass(frozen=True)
class Judged:
    """A reading with the grade of every row; None where nothing could be computed or nothing is printed."""

    reading: Reading
    printed: Printed
    grades: list[str | None]
    fits: frozenset[int]
    misses: frozenset[int]
    telling: frozenset[int]
    """The rows that fit and neither print that they are one nor are compared with themselves."""
    score: float
    whole: bool
    """Whether every printed number fits."""

    @property
    def order(self) -> tuple[float, bool, int]:
        """Return what orders readings: by the numbers that fit, then by whether all do, then by how plain it is."""
        return self.score, self.whole, -self.reading.rank

    def evidence(self, rows: frozenset[int] | None = None) -> float:
        """Return how unlikely it is, in digits, that what fits, or these rows of it, does so by chance.

        Equal numbers count once, and a parameter that was fitted takes away a row.
        """
        chances: dict[str, float] = {}
        for row in self.telling if rows is None else rows:
            value, quantity = self.reading.values[row], self.printed[row]
            if value and quantity and value.middle:
                width = (value.high - value.low + quantity.high - quantity.low) / abs(value.middle)
                chances[f"{value.middle:.3g}"] = min(1.0, width)
        digits = sorted(-math.log10(max(chance, 1e-6)) for chance in chances.values())
        free = self.reading.free
        found = sum(digits[: len(digits) - free] if free else digits)
        return found + self.reading.plainest - self.reading.rank / _RANKS_PER_DIGIT


@dataclass(frozen=True)
class Verdict:
    """What was found for each row: the reading that it is graded by, or None, and why it is not checked."""

    readings: list[Reading | None]
    grades: list[str | None]
    reason: str = ""
    usual: Reading | None = None
    """The reading of the column, if it is sure enough to call other numbers wrong."""


def judge(reading: Reading, printed: Printed, ones: frozenset[int] = frozenset()) -> Judged:
    """Grade every printed number by a reading.

    A baseline that prints that it is one counts half, and one that is compared with another row counts against it.
    """
    pairs = zip(reading.values, printed, strict=True)
    grades = [grade(quantity, value) if value and quantity else None for value, quantity in pairs]
    misses = frozenset(row for row, found in enumerate(grades) if found == INCONSISTENT)
    fits = frozenset(row for row, found in enumerate(grades) if found) - misses
    score = len(fits - reading.same) - reading.free + len(fits & reading.same) / 2 - len(misses & ones)
    score -= _CUT * grades.count(TRUNCATED)
    whole = bool(fits) and len(fits) == sum(map(bool, printed))
    return Judged(reading, printed, grades, fits, misses, fits - reading.same - ones, score, whole)


def choose(readings: Iterable[Reading], printed: Printed, ones: frozenset[int] = frozenset()) -> Verdict | None:
    """Take the reading that makes most numbers consistent, of equal ones the plainest, and excuse what others fit."""
    wanted = sum(value is not None for value in printed)
    known: list[Judged] = []
    for reading in readings:
        judged = judge(reading, printed, ones)
        known += [judged] if judged.fits or reading.certain else []
        done = judged.telling and not judged.misses and len(judged.fits | reading.same) >= wanted
        if done and TRUNCATED not in judged.grades and not reading.free and not reading.confirms:
            break
    measured = [judged for judged in known if not judged.reading.confirms]
    best = max(measured or [judged for judged in known if judged.whole], key=lambda judged: judged.order, default=None)
    if best is None:
        return None
    certain = [judged for judged in measured if judged.reading.certain]
    chance = bool(certain) and not best.reading.certain and best.evidence() < _CHANCE
    if not chance and (not best.misses or _accuses(best)):
        return _verdict(best, measured)
    confirming = [judged for judged in known if judged.reading.confirms and judged.whole]
    return _verdict(max(confirming or certain or [best], key=lambda judged: judged.order), measured)


def _verdict(best: Judged, known: Sequence[Judged]) -> Verdict:
    readings: list[Reading | None] = [best.reading if found else None for found in best.grades]
    loose = best.reading.rank >= LOOSE
    grades = [None if found == TRUNCATED and loose else found for found in best.grades]
    cut = {row for row, found in enumerate(grades) if found == TRUNCATED}
    for row in best.misses | cut:
        other = next((judged for judged in known if row in judged.fits and _possible(judged, best, row)), None)
        if other and (row not in cut or other.grades[row] == CONSISTENT):
            readings[row], grades[row] = other.reading, other.grades[row]
    if _accuses(best):
        return Verdict(readings, grades, usual=best.reading)
    nothing = not best.misses or best.evidence() < _EVIDENCE  # without a miss, its score is no more than 0
    kept = [None if nothing or found == INCONSISTENT else found for found in grades]
    return Verdict(readings, kept, "no baseline or formula that fits its numbers")


def _possible(judged: Judged, best: Judged, row: int) -> bool:
    """Return whether a number that the best reading does not give may be meant by another one.

    That one explains as much, or more of what the best one leaves open, and not by chance.
    """
    if judged is best or row not in judged.telling | judged.reading.same:
        return False
    if judged.misses <= best.misses - {row}:
        several = len(judged.telling) > 1 + judged.reading.free and judged.evidence() >= _EVIDENCE
        return several or judged.reading.rank <= best.reading.rank
    if judged.reading.rank <= _PLAIN and judged.score >= best.score and not judged.reading.free:
        return True
    explained = judged.telling & best.misses
    return len(explained) > 1 + judged.reading.free and judged.evidence(explained) >= _EVIDENCE


def _accuses(judged: Judged) -> bool:
    """Return whether a reading is sure enough to call the numbers that do not fit it wrong."""
    reading = judged.reading
    telling, misses = len(judged.telling) - reading.free, len(judged.misses)
    if not misses:
        return judged.score > 0
    if reading.certain and (telling >= 1 or misses <= _SURE_ALONE or reading.plainest):
        return True
    if reading.rank >= LOOSE or telling < 1 or len(judged.telling) < misses:
        return False
    return (telling > 1 or reading.rank == 0) and judged.evidence() >= _EVIDENCE


def stab(spans: Sequence[Span | None]) -> Span | None:
    """Return the part that lies in most of the intervals; None if no two of them meet."""
    ends = sorted((edge, order) for span in spans if span for edge, order in ((span.low, 0), (span.high, 1)))
    best, depth, found = 1, 0, None
    for place, (edge, order) in enumerate(ends):
        depth += 1 if order == 0 else -1
        if order == 0 and depth > best:
            best = depth
            found = (edge, ends[place + 1][0])
    return Span(found[0], sum(found) / 2, found[1]) if found else None
