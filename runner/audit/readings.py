"""Ways to compute a column from others, and the choice among them: the one that makes most cells consistent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.audit.spans import INCONSISTENT, Span, grade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runner.audit.quantities import Quantity


LOOSE = 50
"""From this rank on, a reading may confirm numbers but accuses none, for example one by mean times."""
ALIKE = 0.001
"""Numbers that differ by less than this share of them are the same number, as far as a table shows."""


@dataclass(frozen=True)
class Reading:
    """One way to compute the numbers of a column.

    `formulas` says for a row what was computed from what. `bases` are the rows of comparison, `same` the rows that are
    compared with themselves. `free` counts parameters that were fitted, `rank` orders readings from plain to
    far-fetched, and `certain` says that nothing but this reading can be meant.
    """

    values: tuple[Span | None, ...]
    formula: Callable[[int], str]
    rank: int
    free: int = 0
    certain: bool = False
    same: frozenset[int] = frozenset()
    bases: tuple[int | None, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """A reading with the grade of every row; None where nothing could be computed or nothing is printed."""

    reading: Reading
    grades: tuple[str | None, ...]
    fits: int
    misses: int
    score: float = 0.0
    covered: int = 0
    """Rows that are graded or print nothing."""
    trivial: int = 0
    """Of the rows that fit, those that print that they are one: nearly every reading gives it."""


def judge(reading: Reading, printed: Sequence[Quantity | None], ones: Sequence[bool] = ()) -> Verdict:
    """Grade every printed number by a reading.

    A baseline that prints that it is one counts half, and one that is compared with another row counts against it.
    """
    grades: list[str | None] = []
    fits = own = misses = denied = trivial = 0
    for row, (value, quantity) in enumerate(zip(reading.values, printed, strict=True)):
        if value is None or quantity is None:
            grades.append(None)
            continue
        found = grade(quantity, value)
        grades.append(found)
        misses += found == INCONSISTENT
        denied += found == INCONSISTENT and bool(ones) and ones[row]
        own += found != INCONSISTENT and row in reading.same
        fits += found != INCONSISTENT and row not in reading.same
        trivial += found != INCONSISTENT and row not in reading.same and bool(ones) and ones[row]
    covered = sum(found is not None or value is None for found, value in zip(grades, printed, strict=True))
    return Verdict(reading, tuple(grades), fits, misses, fits - reading.free + own / 2 - denied, covered, trivial)


def choose(
    readings: Iterable[Reading], printed: Sequence[Quantity | None], ones: Sequence[bool] = ()
) -> Verdict | None:
    """Return the reading that makes most numbers consistent, of equal ones the plainest.

    If that is not sure enough to call the others wrong, a reading that is certain without them takes its place.
    """
    best: Verdict | None = None
    sure: Verdict | None = None
    wanted = sum(value is not None for value in printed)
    for reading in readings:
        verdict = judge(reading, printed, ones)
        if best is None or _order(verdict) > _order(best):
            best = verdict
        if reading.certain and (sure is None or _order(verdict) > _order(sure)):
            sure = verdict
        if not verdict.misses and verdict.fits + len(reading.same) >= wanted and not reading.free and verdict.fits:
            break
    return best if best is None or holds(best) or sure is None else sure


def _order(verdict: Verdict) -> tuple[float, bool, int]:
    whole = verdict.fits > 0 and not verdict.misses and len(verdict.grades) == verdict.covered
    return verdict.score, whole, -verdict.reading.rank


def holds(verdict: Verdict) -> bool:
    """Whether a reading is sure enough to call the numbers that do not fit it wrong."""
    reading = verdict.reading
    if not verdict.misses:
        return verdict.score > 0
    if reading.certain:
        return True
    if reading.rank >= LOOSE or _says_the_same(verdict):
        return False
    telling = verdict.fits - verdict.trivial
    fits = telling - reading.free
    return fits >= 1 and telling >= verdict.misses and (fits > 1 or (reading.rank == 0 and verdict.misses <= fits))


def _says_the_same(verdict: Verdict) -> bool:
    """Whether a reading gives the same number for every row, so that rows which print it are no evidence for it."""
    reading = verdict.reading
    graded = (row for row, found in enumerate(verdict.grades) if found is not None and row not in reading.same)
    middles = [value.middle for row in graded if (value := reading.values[row])]
    return len(middles) > 1 and max(middles) - min(middles) <= ALIKE * max(map(abs, middles))


def stab(spans: Sequence[Span | None]) -> Span | None:
    """Return the part that lies in most of the intervals; None if no two of them meet."""
    ends = sorted((edge, order) for one in spans if one for edge, order in ((one.low, 0), (one.high, 1)))
    best, depth, found = 1, 0, None
    for place, (edge, order) in enumerate(ends):
        depth += 1 if order == 0 else -1
        if order == 0 and depth > best:
            best = depth
            found = (edge, ends[place + 1][0])
    return Span(found[0], sum(found) / 2, found[1]) if found else None
