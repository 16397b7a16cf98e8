"""Compare the runs of two versions, A and B, and judge each cell.

Runs made for a comparison come in pairs of successive runs, in the order AB BA AB BA. The two runs of a pair are
compared with each other, because slow changes of the machine affect them alike. A linear drift has opposite signs in
successive pairs. Runs that were not made for a comparison are two independent samples, compared by Welch's test.
"""

import math
import shlex
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from runner.report import claims
from runner.report.columns import estimate
from runner.report.compare import block_key, key_of
from runner.report.formats import markdown, pipes
from runner.report.order import Series, in_order, options_of
from runner.report.rows import CellRuns, cell_runs, copies_note, ending, timed_alike
from runner.report.run_summary import RunSummary
from runner.report.statistics import (
    CONFIDENCE,
    FEWEST,
    MOST,
    POWER,
    SIGNIFICANT,
    Difference,
    Estimate,
    holm,
    paired,
    repeats_to_find,
    welch,
)

FASTER, SLOWER, SAME, NOT_COMPARABLE = "faster", "slower", "no difference shown", "not comparable"
VERSIONS = ("code", "lock file", "image", "torch", "NCCL", "Python")
CHOICES = (*VERSIONS, "program", "args", "threads per process")
"""What may differ between A and B: `VERSIONS`, or all `CHOICES` if the runs were made for the comparison."""


@dataclass(frozen=True)
class Verdict:
    """The comparison of one cell.

    Attributes:
        a, b: the cell's runs on sides A and B; None if a side has no runs.
        on_both: the number of runs that are ignored because both sides contain them.
        verdict: whether B is `FASTER`, `SLOWER`, `SAME` or `NOT_COMPARABLE`.
        why: the reason why the cell is not comparable, or why it is not decided.
        ratio: the typical time of B divided by the typical time of A.
        adjusted_p: the p-value after Holm's correction over all cells.
        small: whether both ends of the interval are smaller than the difference to detect.
        decided: whether B is `FASTER` or `SLOWER`, or the difference is small.
        proposed: repeats of each side with which nine of ten comparisons find the difference to detect.
        differs: for each property that differs between the sides, a sentence with two values.
    """

    name: str
    a: CellRuns | None
    b: CellRuns | None
    on_both: int = 0
    verdict: str = NOT_COMPARABLE
    why: str | None = None
    ratio: Estimate | None = None
    adjusted_p: float | None = None
    small: bool = False
    decided: bool = False
    proposed: int | None = None
    differs: tuple[str, ...] = ()

    @property
    def in_pairs(self) -> bool:
        """Whether the cell's runs were made for one comparison, and have equal repeat numbers on both sides."""
        if not self.a or not self.b:
            return False
        of_a, of_b = self.a.first.side, self.b.first.side
        if not of_a or not of_b or of_a[0] != of_b[0] or of_a == of_b:
            return False
        repeats = [sorted(run.repeat for run in side.complete) for side in (self.a, self.b)]
        made = {run.side for run in (*self.a.runs, *self.b.runs)} == {of_a, of_b}
        return made and repeats[0] == repeats[1] and len(set(repeats[0])) == len(repeats[0])

    @property
    def repeats(self) -> int:
        """The number of complete runs on the side with fewer complete runs."""
        return min(len(side.complete) if side else 0 for side in (self.a, self.b))


def exit_code(verdicts: list[Verdict]) -> int:
    """Return 1 if B is slower in any cell and the difference is not small.

    Otherwise, return 4 if any cell is undecided, and 0 if no cell is. A cell that only B has does not count as
    undecided.
    """
    if any(verdict.verdict == SLOWER and not verdict.small for verdict in verdicts):
        return 1
    return 4 if any(not verdict.decided and (verdict.a or verdict.on_both) for verdict in verdicts) else 0


def judge(a: list[RunSummary], b: list[RunSummary], detect: float) -> list[Verdict]:
    """Compare the runs of sides A and B in each cell. `detect` is the difference to detect: 0.05 is 5%."""
    of_a = {*map(id, a)}
    both = timed_alike([*a, *b], lambda run: (id(run) in of_a, run.experiment, run.cell))
    series = Series(both)
    measured = [(cell, _difference(cell, series)) for cell in _matched(both[: len(a)], both[len(a) :])]
    differences = [(cell, found) for cell, found in measured if isinstance(found, Difference)]
    adjusted = iter(holm([found.p or 0.0 for cell, found in differences if cell.repeats >= FEWEST]))
    return [
        replace(cell, why=found)
        if isinstance(found, str)
        else _verdict(cell, found, next(adjusted) if cell.repeats >= FEWEST else None, detect, len(differences))
        for cell, found in measured
    ]


def _difference(cell: Verdict, series: Series) -> Difference | str:
    if not cell.a or not cell.b:
        if not cell.a and not cell.b:
            return "A and B are the same runs"
        here, other = "AB" if cell.a else "BA"
        return f"every run of {other} is also in {here}" if cell.on_both else f"only in {here}"
    if why := _not_comparable(cell.a, cell.b, made=cell.in_pairs):
        return why
    b, a = (
        [run.seconds for run in sorted(side.complete, key=lambda run: run.repeat) if run.seconds]
        for side in (cell.b, cell.a)
    )
    difference = (paired if cell.in_pairs else welch)(b, a)
    if cell.repeats < FEWEST:
        return difference
    run = cell.b.first
    options = options_of(run, [{**run.axes, "layout": run.layout}], cell.repeats, {})
    command = f"runner compare COMMIT COMMIT --experiment {shlex.quote(run.experiment)} {options}"
    difference, refused = in_order(difference, cell.a, cell.b, series, command, paired=cell.in_pairs)
    return refused or difference


def _not_comparable(a: CellRuns, b: CellRuns, *, made: bool) -> str | None:
    # Disturbances affect both sides alike if the runs were `made` for the comparison in turn.
    runs, sides = [*a.complete, *b.complete], [("A", a), ("B", b)]
    may_differ = CHOICES if made else VERSIONS
    for run in (*a.runs, *b.runs):
        if run.doubts:
            return f"doubtful: {run.doubts[0]} ({run.path})"
    if why := claims.not_complete(sides):
        return why
    for name, side in sides:
        if wrong := claims.differing(list(side.complete)):
            return f"within {name}: {wrong}"
    return (
        "; ".join(claims.settings_differ(runs, may_differ))
        or claims.differing(runs, may_differ)
        or claims.machine_decides(b, a, ("B", "A"))
        or claims.total_work_differs(runs)
        or claims.learned_differs(b, a)
        or (None if made else claims.disturbed(runs))
    )


def _verdict(cell: Verdict, difference: Difference, adjusted_p: float | None, detect: float, tests: int) -> Verdict:
    effect, half = math.log1p(detect), difference.half_width()
    runs = [side.complete[0] for side in (cell.a, cell.b) if side]
    shown = adjusted_p is not None and adjusted_p < SIGNIFICANT
    small = adjusted_p is not None and half is not None and abs(difference.log) + half < effect
    why = None
    if adjusted_p is None:
        why = f"n = {cell.repeats}, needs {FEWEST} on both sides"
    elif not shown and not small:
        why = f"too few repeats to rule out a difference of {100 * detect:.3g}%"
    return replace(
        cell,
        verdict=(SLOWER if difference.log > 0 else FASTER) if shown else SAME,
        why=why,
        ratio=difference.estimate(),
        adjusted_p=adjusted_p,
        small=small,
        decided=shown or small,
        proposed=repeats_to_find(difference, effect, tests=tests),
        differs=(*claims.settings_differ(runs), *claims.two_of_each([run.same for run in runs])),
    )


def _matched(a: list[RunSummary], b: list[RunSummary]) -> list[Verdict]:
    """Match the cells of sides A and B by experiment, layout, axes and the rest of `BlockKey`.

    If each side has only one experiment, the experiment is ignored. If each side has only one cell with a layout and
    axes, the rest of `BlockKey` is ignored. Runs that both sides contain are left out, because they would make the
    difference look too small.
    """
    one_each = len({run.experiment for run in a}) == len({run.experiment for run in b}) == 1
    places: dict[Any, list[dict[Any, list[RunSummary]]]] = defaultdict(lambda: [defaultdict(list), defaultdict(list)])
    for side, runs in enumerate((a, b)):
        for run in runs:
            place = ("" if one_each else run.experiment, run.processes, run.layout, key_of(run.axes))
            places[place][side][block_key(run)._replace(experiment="", side=())].append(run)
    found = []
    for place, (of_a, of_b) in sorted(places.items(), key=lambda item: item[0]):
        pairs = [(of_a.get(setting, []), of_b.get(setting, [])) for setting in {**of_a, **of_b}]
        if len(of_a) == len(of_b) == 1:
            pairs = [(of_a.popitem()[1], of_b.popitem()[1])]
        for pair in pairs:
            on_both = set.intersection(*({run.id for run in runs if run.id} for runs in pair))
            own = ([run for run in runs if run.id not in on_both] for runs in pair)
            a_side, b_side = (cell_runs(runs) if runs else None for runs in own)
            name = f"{place[0]} {(pair[0] or pair[1])[0].cell}".lstrip()
            found.append(Verdict(name, a_side, b_side, len(on_both)))
    return found


def to_rows(verdicts: list[Verdict]) -> list[tuple[str, ...]]:
    """Return the table as rows: first the heads of the columns, then a row for each cell."""
    measures = {side.first.measure for cell in verdicts for side in (cell.a, cell.b) if side}
    unit = measures.pop().replace("_", " ") if len(measures) == 1 else "seconds"
    rows: list[tuple[str, ...]] = [
        ("cell", "n", *(f"{what} [{CONFIDENCE}]" for what in (f"A {unit}", f"B {unit}", "B / A")), "verdict")
    ]
    for cell in verdicts:
        counts = dict.fromkeys(str(len(side.complete)) if side else "0" for side in (cell.a, cell.b))
        times = (estimate(side.seconds if side else None) for side in (cell.a, cell.b))
        rows.append((cell.name, " and ".join(counts), *times, estimate(cell.ratio, least=3), cell.verdict))
    return rows


def to_markdown(a: str, b: str, verdicts: list[Verdict], detect: float) -> str:
    """Return a Markdown document with the sides, the table and the notes, for a comment on a pull request."""
    notes = [f"- {markdown(note)}" for note in to_notes(verdicts, detect)]
    sides = f"A is {markdown(a)}, B is {markdown(b)}."
    return "\n".join([sides, "", *pipes(*to_rows(verdicts)), "", *notes]) + "\n"


def to_notes(verdicts: list[Verdict], detect: float) -> list[str]:
    """Return the notes below the table: reasons, differences between the sides, and proposed repeats."""
    asked = f"{100 * detect:.3g}%"
    found = [f"{cell.name}: {cell.why}" for cell in verdicts if cell.why]
    both = "runs on both sides, ignored"
    found += [f"{cell.name}: {both}: {cell.on_both}" for cell in verdicts if cell.on_both]
    for cell in verdicts:
        if cell.a and cell.b and cell.verdict != NOT_COMPARABLE:
            found += [f"{cell.name}: {what}" for what in claims.taken_for_granted([*cell.a.complete, *cell.b.complete])]
    clear = [cell for cell in verdicts if cell.verdict in (FASTER, SLOWER) and cell.small]
    found += [f"{cell.name}: {cell.verdict}, by less than {asked}" for cell in clear]
    tested = sum(cell.adjusted_p is not None for cell in verdicts)
    if tested > 1:
        found.append(f"{tested} cells are compared, so the verdicts are subject to Holm's correction")
    found += [f"between A and B: {what}" for what in dict.fromkeys(what for cell in verdicts for what in cell.differs)]
    for cell in verdicts:
        for name, side in (("A", cell.a), ("B", cell.b)):
            found += [f"{cell.name}: {name}: {what}" for what in (_of_side(side) if side else ())]
    for cell in verdicts:
        if cell.ratio and cell.ratio.low is not None:
            needed = f"over {MOST:,}" if cell.proposed is None else f"{cell.proposed:,}"
            finds = f"--repeat {needed} finds a difference of {asked} in {POWER * 10:.0f} of 10 comparisons"
            found.append(f"{cell.name}: {finds}; there were {cell.repeats}")
    return found


def _of_side(side: CellRuns) -> list[str]:
    found = [ending(run) for run in side.runs if run.status != "completed"]
    if side.copies:
        found.append(copies_note(side.copies))
    if disturbed := [run for run in side.runs if run.disturbed]:
        first = f"{'; '.join(disturbed[0].disturbed)} ({disturbed[0].path})"
        found.append(f"{len(disturbed)} of {len(side.runs)} runs disturbed, the first: {first}")
    return found


def to_plain(a: str, b: str, verdicts: list[Verdict], detect: float) -> dict[str, Any]:
    """Return the comparison as a dict for JSON. Scripts rely on the names of the keys."""
    return {
        "a": a,
        "b": b,
        "detect": detect,
        "exit_code": exit_code(verdicts),
        "cells": [
            {
                "cell": cell.name,
                "verdict": cell.verdict,
                "why": cell.why,
                "ratio": cell.ratio and cell.ratio.value,
                "ratio_low": cell.ratio and cell.ratio.low,
                "ratio_high": cell.ratio and cell.ratio.high,
                "p": cell.adjusted_p,
                "design": "pairs" if cell.in_pairs else "independent",
                "decided": cell.decided,
                "proposed_repeats": cell.proposed,
                "differs": cell.differs,
                "a": cell.a and _plain_side(cell.a),
                "b": cell.b and _plain_side(cell.b),
            }
            for cell in verdicts
        ],
        "notes": to_notes(verdicts, detect),
    }


def _plain_side(side: CellRuns) -> dict[str, Any]:
    return {
        "experiment": side.first.experiment,
        "layout": side.first.layout,
        "axes": side.first.axes,
        "measure": side.first.measure,
        "n": len(side.complete),
        "seconds": side.seconds and side.seconds.value,
        "points": [run.seconds for run in side.complete],
        "runs": [run.path for run in side.runs],
    }
