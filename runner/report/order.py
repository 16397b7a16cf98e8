"""In which order runs were made, and how much less sure a difference is because of it.

A machine that slowly gets slower looks like a difference between runs that were made first and those made last, and
runs beside one another are more alike than others. Both make the difference of two means wrong by more than the spread
of the runs shows, unless these were made in turn. By how much follows from their order alone.
"""

import math
import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean, variance
from typing import Any

from runner.report.rows import CellRuns
from runner.report.run_summary import RunSummary
from runner.report.statistics import FEWEST, Difference, vary

MOST_WIDENED = 2.5
"""A difference that its order makes less sure by more is not shown; all of one side before the other gives 2.9."""
NO_SPREAD = "the repeats of a side do not vary: what printed the times has rounded them"
"""Why nothing is said of times that are all the same: how far off they are, no repeat shows."""
NOT_IN_TURN = "not made in turn"
NOT_KNOWN = "not known whether the runs were made in turn: a record lacks its start"
_CORRELATION = 0.5
"""Between the noise of a run and that of the next one, as of an autoregressive process of the first order."""
_FREEDOM = 1.03
"""Such noise leaves fewer degrees of freedom, too."""
_HARMLESS = 1.25
"""Standard errors that a steady drift may put between the sides: simulated, these give no more false claims."""
_FAR = 20
"""Runs that are further apart have nothing in common: 0.5^20 is a millionth."""


class Series:
    """Runs by the time at which they trained; those of several machines may do so at the same time."""

    def __init__(self, runs: Iterable[RunSummary]) -> None:
        known = {run.id or run.path: run for run in runs if run.began is not None}
        self._runs = sorted(known.values(), key=_began)
        self._begins = [_began(run) for run in self._runs]
        self._ends = sorted(_end(run) for run in self._runs)
        self._beside = _beside(self._runs)

    def place(self, run: RunSummary) -> float:
        """Return the place of a run: runs that trained at the same time share theirs."""
        before = bisect_right(self._ends, _began(run)) - (_end(run) == _began(run))
        after = len(self._runs) - bisect_left(self._begins, _end(run)) - (_end(run) == _began(run))
        return (before + len(self._runs) - 1 - after) / 2

    def shared(self, runs: Iterable[RunSummary]) -> str | None:
        """Return which of some runs had to share a machine with another one of the series."""
        both = next((self._beside[run.path] for run in runs if run.path in self._beside), None)
        return both and f"two runs on one machine at the same time: {both}"


def in_order(
    difference: Difference, a: CellRuns, b: CellRuns, series: Series, command: str, *, paired: bool = False
) -> tuple[Difference, str | None]:
    """Return a difference as sure as the order of its runs lets it be, and why nothing is shown by it, if that is so.

    `series` are all runs that were made with them: what lies between two runs makes them less alike. `command` makes
    such runs in turn. `paired` are runs that are compared in pairs, by their repeats.
    """
    runs = [sorted(side.complete, key=lambda run: run.repeat) if paired else side.complete for side in (a, b)]
    if difference.error is None or not all(vary([run.seconds for run in side if run.seconds]) for side in runs):
        return difference, NO_SPREAD
    if any(run.began is None for side in runs for run in side):
        why: str | None = NOT_KNOWN
    elif not (why := series.shared([*a.complete, *b.complete])):
        widened = widening(*([series.place(run) for run in side] for side in runs), paired=paired)
        difference = replace(difference, widened=widened)
        why = NOT_IN_TURN if widened > MOST_WIDENED else None
    return difference, why and shown_by(why, command)


def shown_by(why: str, command: str) -> str:
    """Return a refusal with the command whose runs show what these do not, if one is known."""
    return f"{why}; shown by: {command}" if command else why


def options_of(run: RunSummary, cells: Sequence[dict[str, Any]], repeats: int, definition: dict[str, Any]) -> str:
    """Return the options that choose some cells, which differ from that of a run in their axes alone, and repeats."""
    declared = definition.get("args") or {}
    told = [("only", axis, cell[axis]) for cell in cells for axis in cell if axis not in ("layout", *run.option_axes)]
    # Nodes with unlike values are joined by a plus, and one node has the first.
    told += [("with", axis, str(run.axes[axis]).replace("+", ",")) for axis in run.option_axes]
    told += [("set", arg, value) for arg, value in run.args.items() if declared.get(arg, value) != value]
    words = [f"--on {run.target}"] if run.target != "local" else []
    words += [f"--layout {cell['layout']}" for cell in cells]
    words += [f"--{option} {shlex.quote(f'{name}={value}')}" for option, name, value in told]
    return " ".join(dict.fromkeys([*words, f"--repeat {max(FEWEST, repeats)}"]))


def _beside(runs: Iterable[RunSummary]) -> dict[str, str]:
    """Return the runs that were on one machine at the same time, each with both of their paths."""
    last: dict[str, RunSummary] = {}
    found = {}
    for run in runs:
        for machine in filter(None, (id_ for id_, _ in run.machines)):
            other = last.setdefault(machine, run)
            if other is not run and _began(run) < _end(other):
                found.update(dict.fromkeys((run.path, other.path), f"{other.path} and {run.path}"))
            if _end(run) > _end(other):
                last[machine] = run
    return found


def _began(run: RunSummary) -> float:
    return run.began or 0.0


def _end(run: RunSummary) -> float:
    """Return when a run ended; of one whose machines are not known only the start counts.

    A program that counts otherwise than by the clock did not run longer than its processes.
    """
    took = run.seconds or 0.0 if any(id_ for id_, _ in run.machines) else 0.0
    return max(_began(run), min(_began(run) + took, math.inf if run.ended is None else run.ended))


def widening(a: Sequence[float], b: Sequence[float], *, paired: bool = False) -> float:
    """Return by what a standard error has to be multiplied because of the order of the runs; 1 for a good order.

    It is the larger of what two kinds of disturbance need: a steady drift, by the standard errors that it puts between
    the sides, and noise whose correlation between one run and the next is one half. Each side has the places of its
    runs in their series; paired ones in the order of the pairs.
    """
    if min(len(a), len(b)) <= 1:
        return 1.0
    samples = [[first - second for first, second in zip(a, b, strict=True)]] if paired else [a, b]
    error = math.sqrt(sum(variance(values) / len(values) for values in samples))
    apart = abs(fmean(a) - fmean(b))
    drift = apart / error / _HARMLESS if error else math.inf if apart else 0.0
    return max(1.0, drift, _alike(a, b, paired=paired))


def _alike(a: Sequence[float], b: Sequence[float], *, paired: bool) -> float:
    """Return the root of the variance of a difference of means over that which is to be expected of its estimate."""
    counts = len(a), len(b)
    runs = sorted([(place, 0) for place in a] + [(place, 1) for place in b])
    shared = {(0, 0): 0.0, (1, 1): 0.0, (0, 1): 0.0}  # the sum of the correlations of all pairs of runs
    for index, (place, side) in enumerate(runs):
        for later, other in runs[index + 1 :]:
            if later - place > _FAR:
                break
            shared[min(side, other), max(side, other)] += _correlation(place, later)
    own = [shared[side, side] for side in (0, 1)]
    true = sum((count + 2 * sum_) / count**2 for count, sum_ in zip(counts, own, strict=True))
    true -= 2 * shared[0, 1] / (counts[0] * counts[1])
    if paired:
        count = counts[0]
        within = sum(2 - 2 * _correlation(first, second) for first, second in zip(a, b, strict=True))
        estimated = (within - (count**2 * true - within) / (count - 1)) / count**2
    else:
        pairs = zip(counts, own, strict=True)
        estimated = sum((1 - 2 * sum_ / (count * (count - 1))) / count for count, sum_ in pairs)
    return _FREEDOM * math.sqrt(max(true, 0.0) / estimated)


def _correlation(place: float, other: float) -> float:
    return float(_CORRELATION ** max(1.0, abs(place - other)))
