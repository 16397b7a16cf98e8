"""Runs of two versions -> a verdict for each cell: is B faster or slower than A, or can nothing be said, and why.

Runs that were made for the comparison lie in pairs, A and B one right after the other, the pairs in the order AB BA AB
BA: what changes slowly is the same for both of a pair, and a linear drift has its sign turned by the next one. So they
are compared within the pairs. Runs that were made at other times are compared as two whole samples, by Welch's test.
"""

import math
import shlex
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from runner.report import claims
from runner.report.compare import key_of
from runner.report.machines import machine_decides
from runner.report.order import Series, in_order
from runner.report.repeats import FEWEST, repeats_to_find
from runner.report.rows import CellRuns, cell_runs, timed_alike
from runner.report.run_summary import RunSummary
from runner.report.statistics import Difference, Estimate, holm, paired, welch

FASTER, SLOWER, SAME, NOT_COMPARABLE = "faster", "slower", "no difference shown", "not comparable"
SAME_RUNS = "A and B are the same runs"
VERSIONS = ("code", "lock file", "image", "torch", "NCCL", "Python")
"""What versions may differ in: it is what is compared."""
CHOICES = (*VERSIONS, "program", "args", "threads per process")
"""What may differ besides where both sides were made for the comparison, for example from two definitions."""


@dataclass(frozen=True)
class Pair:
    """One cell of both sides; a side that has no runs of it is None, and `on_both` says what became of common ones."""

    name: str
    a: CellRuns | None
    b: CellRuns | None
    on_both: str = ""

    @property
    def in_pairs(self) -> bool:
        """Return whether every run has its partner: made for one comparison, on the other side, as the same repeat."""
        if not self.a or not self.b:
            return False
        runs = [*self.a.runs, *self.b.runs]
        of_a, of_b = self.a.first.side, self.b.first.side
        if not of_a or not of_b or of_a[0] != of_b[0] or of_a == of_b or {run.side for run in runs} != {of_a, of_b}:
            return False
        repeats = [sorted(run.repeat for run in side.complete) for side in (self.a, self.b)]
        return repeats[0] == repeats[1] and len(set(repeats[0])) == len(repeats[0])

    @property
    def repeats(self) -> int:
        """Complete runs of the side that has fewer."""
        return min(len(side.complete) if side else 0 for side in (self.a, self.b))


@dataclass(frozen=True)
class Verdict(Pair):
    """What can be said of one cell: one of the four words above, and why, where the repeats do not decide.

    `ratio` is the typical time of B over that of A, `adjusted_p` its p-value after Holm's correction over all cells.
    It is `small` if the whole interval is within the difference that was asked for, and `decided` if it is small, or
    B faster or slower. `proposed` repeats of each side find the difference asked for in nine of ten comparisons.
    `differs` is what differs between the sides and is compared, each with its two values.
    """

    verdict: str = NOT_COMPARABLE
    why: str | None = None
    ratio: Estimate | None = None
    adjusted_p: float | None = None
    small: bool = False
    decided: bool = False
    proposed: int | None = None
    differs: tuple[str, ...] = ()


def exit_code(verdicts: list[Verdict]) -> int:
    """Return 1 if B is slower in any cell by what was asked for, or may be, 4 if anything is left open, else 0.

    A cell that is new in B is not open.
    """
    if any(verdict.verdict == SLOWER and not verdict.small for verdict in verdicts):
        return 1
    return 4 if any(not verdict.decided and verdict.a is not None for verdict in verdicts) else 0


def judge(a: list[RunSummary], b: list[RunSummary], detect: float) -> list[Verdict]:
    """Compare the runs of two sides, cell by cell; `detect` is the difference asked for: 0.05 is 5% more time."""
    of_a = {*map(id, a)}
    both = timed_alike([*a, *b], lambda run: (id(run) in of_a, run.experiment, run.cell))
    a, b = both[: len(a)], both[len(a) :]
    series = Series(both)
    measured = [(pair, *_difference(pair, series)) for pair in map(_apart, _matched(a, b))]
    tested = [difference.p for pair, _, difference in measured if difference and pair.repeats >= FEWEST]
    adjusted = iter(holm([1.0 if p is None else p for p in tested]))
    tests = sum(difference is not None for _, _, difference in measured)
    return [
        _verdict(pair, difference, next(adjusted) if pair.repeats >= FEWEST else None, detect, tests)
        if difference
        else Verdict(**vars(pair), why=why)
        for pair, why, difference in measured
    ]


def _difference(pair: Pair, series: Series) -> tuple[str | None, Difference | None]:
    """Return why a cell cannot be compared, or the logarithm of B's time over A's."""
    if not pair.a or not pair.b:
        return f"only in {'A' if pair.a else 'B'}", None
    if _common(pair.a, pair.b):
        return SAME_RUNS, None
    if why := _not_comparable(pair.a, pair.b, made=pair.in_pairs):
        return why, None
    # In the order of the pairs.
    ordered = [sorted(side.complete, key=lambda run: run.repeat) for side in (pair.b, pair.a)]
    b, a = ([run.seconds for run in runs if run.seconds] for runs in ordered)
    difference = (paired if pair.in_pairs else welch)(b, a, pair.a.confidence)
    if pair.repeats < FEWEST:
        return None, difference
    told = f"--experiment {shlex.quote(pair.a.first.experiment)} --layout {pair.a.first.layout}"
    way_out = f"in turn they are made by: runner compare COMMIT COMMIT {told} (docs/comparing.md)"
    difference, why = in_order(difference, pair.a, pair.b, series, way_out, paired=pair.in_pairs)
    return (why, None) if why else (None, difference)


def _not_comparable(a: CellRuns, b: CellRuns, *, made: bool) -> str | None:
    """Return why nothing can be said of two sides, with the field that differs and its values; None if it can.

    What disturbs the machine is in both sides if they were `made` for the comparison, in turn.
    """
    runs = [*a.complete, *b.complete]
    may_differ = CHOICES if made else VERSIONS
    for run in (*a.runs, *b.runs):
        if run.doubts:
            return f"doubtful: {run.doubts[0]} ({run.path})"
    sides = [("A", a), ("B", b)]
    if why := claims.not_complete(sides):
        return why
    for name, side in sides:
        if wrong := claims.differing(list(side.complete)):
            return f"within {name}: {wrong}"
    return (
        "; ".join(claims.settings_differ(runs, may_differ))
        or claims.differing(runs, may_differ)
        or machine_decides(b, a, ("B", "A"))
        or claims.total_work_differs(runs)
        or claims.learned_differs(b, a)
        or (None if made else claims.disturbed(runs))
    )


def _verdict(pair: Pair, difference: Difference, adjusted_p: float | None, detect: float, tests: int) -> Verdict:
    effect, half = math.log1p(detect), difference.half_width
    runs = [side.complete[0] for side in (pair.a, pair.b) if side]
    shown = adjusted_p is not None and adjusted_p < difference.confidence.significant
    small = adjusted_p is not None and half is not None and abs(difference.log) + half < effect
    why = None
    if adjusted_p is None:
        why = f"n = {pair.repeats}, needs {FEWEST} on both sides"
    elif not shown and not small:
        why = f"too few repeats: {100 * detect:.3g}% more or less time is not excluded"
    return Verdict(
        **vars(pair),
        verdict=(SLOWER if difference.log > 0 else FASTER) if shown else SAME,
        why=why,
        ratio=difference.estimate(),
        adjusted_p=adjusted_p,
        small=small,
        decided=shown or small,
        proposed=repeats_to_find(difference, effect, tests=tests),
        differs=(*claims.settings_differ(runs), *(what for _, what in claims.same_differs(runs))),
    )


def _matched(a: list[RunSummary], b: list[RunSummary]) -> list[Pair]:
    """Find for each cell of one side that of the other.

    First those that agree in everything; then, of what is left, those with the same layout and axes, if each side has
    one of them: what differs between the two is said later. One experiment is compared with one of another name.
    """
    one_each = len({run.experiment for run in a}) == len({run.experiment for run in b}) == 1
    sides = [_by_place(side, named=not one_each) for side in (a, b)]
    found = []
    for place in sorted({*sides[0], *sides[1]}):
        ours, theirs = (side.get(place, {}) for side in sides)
        cell = next(iter((ours or theirs).values())).first.cell
        name = cell if one_each else f"{place[0]} {cell}"
        equal = [setting for setting in ours if setting in theirs]
        found += [Pair(name, ours.pop(setting), theirs.pop(setting)) for setting in equal]
        if len(ours) == len(theirs) == 1:
            found.append(Pair(name, ours.popitem()[1], theirs.popitem()[1]))
        found += [Pair(name, side, None) for side in ours.values()]
        found += [Pair(name, None, side) for side in theirs.values()]
    return found


def _apart(pair: Pair) -> Pair:
    """Leave a run that lies on both sides to the one that has no others; if both have, it belongs to neither."""
    if not pair.a or not pair.b or not (common := _common(pair.a, pair.b)):
        return pair
    a, b = ([run for run in side.runs if run.id not in common] for side in (pair.a, pair.b))
    if not a and not b:
        return pair
    owner = "neither" if a and b else "B alone" if a else "A alone"
    words = f"{len(common)} {'run lies' if len(common) == 1 else 'runs lie'} on both sides: counted for {owner}"
    return Pair(pair.name, _only(pair.a, a), _only(pair.b, b), words)


def _only(side: CellRuns, own: list[RunSummary]) -> CellRuns:
    """Return a side with its own runs alone, if it has any."""
    return replace(cell_runs(own, side.confidence), copies=side.copies) if own else side


def _common(a: CellRuns, b: CellRuns) -> set[str]:
    """Return which runs lie on both sides."""
    return {run.id for run in a.runs if run.id} & {run.id for run in b.runs}


def _by_place(runs: list[RunSummary], *, named: bool) -> dict[tuple[str, int, str, bytes], dict[Any, CellRuns]]:
    """Sort the runs of a side by their cell, and those of a cell by where they were made and what they were told."""
    groups: dict[Any, dict[Any, list[RunSummary]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        place = (run.experiment if named else "", run.processes, run.layout, key_of(run.axes))
        setting = (run.target, run.hardware, run.scaling, run.measure, run.program, key_of(run.args))
        groups[place][setting].append(run)
    return {place: {setting: cell_runs(own) for setting, own in settings.items()} for place, settings in groups.items()}
