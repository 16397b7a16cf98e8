"""Widen the interval of a difference by the uncertainty that the order of the runs adds.

A slow drift of the machine makes early and late runs differ. Neighbouring runs resemble each other more than distant
runs. Unless the two sides took turns, the spread of the runs understates the error from both effects. The factor
depends only on the order.
"""

import math
import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean, variance
from typing import Any

from runner.core.secrets import MASK
from runner.definitions.environment import variables_of
from runner.report.rows import CellRuns
from runner.report.run_summary import RunSummary
from runner.report.statistics import FEWEST, Difference, vary

MOST_WIDENED = 2.5
"""A larger factor forbids the use of a difference. If all runs of one side come first, the factor is at least 2.9."""
NO_SPREAD = "the repeats of one side have identical times, so they were rounded when printed"
"""The reason to refuse identical times: their error cannot be estimated."""
NOT_IN_TURN = "not made in turn"
NOT_KNOWN = "unknown whether the runs were made in turn: a record lacks its start time"
_CORRELATION = 0.5
"""Correlation of the noise of successive runs, modelled as a first-order autoregressive process."""
_FREEDOM = 1.03
"""Factor on the widening, because correlated noise leaves fewer degrees of freedom."""
_HARMLESS = 1.25
"""A steady drift by this many standard errors did not cause more false claims in simulations."""
_FAR = 20
"""Runs this many places apart count as uncorrelated: 0.5^20 is a millionth."""


class Series:
    """Runs in the order in which they trained. Runs on different machines may overlap in time."""

    def __init__(self, runs: Iterable[RunSummary]) -> None:
        known = {run.id or run.path: run for run in runs if run.began is not None}
        self._runs = sorted(known.values(), key=_began)
        self._begins = [_began(run) for run in self._runs]
        self._ends = sorted(_end(run) for run in self._runs)
        self._beside = _beside(self._runs)

    def place(self, run: RunSummary) -> float:
        """Return the place of a run in the order. If it overlaps other runs, return the mean of its possible places."""
        before = bisect_right(self._ends, _began(run)) - (_end(run) == _began(run))
        after = len(self._runs) - bisect_left(self._begins, _end(run)) - (_end(run) == _began(run))
        return (before + len(self._runs) - 1 - after) / 2

    def shared(self, runs: Iterable[RunSummary]) -> str | None:
        """Name the first of these runs that overlapped another run on one machine. Returns None if none overlapped."""
        both = next((self._beside[run.path] for run in runs if run.path in self._beside), None)
        return both and f"two runs on one machine at the same time: {both}"


def in_order(
    difference: Difference, a: CellRuns, b: CellRuns, series: Series, command: str, *, paired: bool = False
) -> tuple[Difference, str | None]:
    """Widen the interval of a difference because of the order of its runs.

    Returns the difference, and the reason why it must not be used, or None if it may be used. `series` also has the
    runs made between the runs of the two sides, because they count in the order. `command` makes the runs in turn, and
    is added to the reason. If `paired`, runs with equal repeat numbers are compared in pairs.
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
    """Append a command, if any, to a reason for refusal. The runs of this command would show the difference."""
    return f"{why}; shown by: {command}" if command else why


def options_of(run: RunSummary, cells: Sequence[dict[str, Any]], repeats: int, definition: dict[str, Any]) -> str:
    """Return the options with which `runner run` makes `repeats` runs of some cells of a run's experiment."""
    declared = definition.get("args") or {}
    told = [("only", axis, cell[axis]) for cell in cells for axis in cell if axis not in ("layout", *run.option_axes)]
    # Different values of nodes are joined with `+` in axes, and with a comma in options.
    told += [("with", axis, str(run.axes[axis]).replace("+", ",")) for axis in run.option_axes]
    told += [("set", arg, value) for arg, value in run.args.items() if declared.get(arg, value) != value]
    of_definition = definition.get("env") or {}
    variables = variables_of(run.args).items()
    changed = [
        name if value == MASK else f"{name}={value}" for name, value in variables if of_definition.get(name) != value
    ]
    words = [f"--on {run.target}"] if run.target != "local" else []
    words += [f"--layout {cell['layout']}" for cell in cells]
    words += [f"--{option} {shlex.quote(f'{name}={value}')}" for option, name, value in told]
    words += [f"--env {shlex.quote(word)}" for word in changed]
    return " ".join(dict.fromkeys([*words, f"--repeat {max(FEWEST, repeats)}"]))


def _beside(runs: Iterable[RunSummary]) -> dict[str, str]:
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
    """Return when a run ended: its start plus its seconds. Returns its start if its machines are unknown.

    Some programs do not measure in seconds, so the result is never later than the end of the processes.
    """
    took = run.seconds or 0.0 if any(id_ for id_, _ in run.machines) else 0.0
    return max(_began(run), min(_began(run) + took, math.inf if run.ended is None else run.ended))


def widening(a: Sequence[float], b: Sequence[float], *, paired: bool = False) -> float:
    """Return the factor by which the order of the runs multiplies a standard error; 1 for a good order.

    `a` and `b` have the places of the two sides' runs in their series. If `paired`, runs at the same index are a pair.
    One factor is computed for a steady drift, another for noise with a correlation of one half between successive runs.
    The larger factor is returned.
    """
    if min(len(a), len(b)) <= 1:
        return 1.0
    samples = [[first - second for first, second in zip(a, b, strict=True)]] if paired else [a, b]
    error = math.sqrt(sum(variance(values) / len(values) for values in samples))
    apart = abs(fmean(a) - fmean(b))
    drift = apart / error / _HARMLESS if error else math.inf if apart else 0.0
    return max(1.0, drift, _alike(a, b, paired=paired))


def _alike(a: Sequence[float], b: Sequence[float], *, paired: bool) -> float:
    """Return the factor for correlated noise: sqrt(true variance / expected estimate of the variance)."""
    counts = len(a), len(b)
    runs = sorted([(place, 0) for place in a] + [(place, 1) for place in b])
    shared = {(0, 0): 0.0, (1, 1): 0.0, (0, 1): 0.0}  # correlations added over pairs of runs, by the sides of the pair
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
