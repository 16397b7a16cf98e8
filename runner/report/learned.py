"""What runs have learned, and whether two cells have learned the same: a faster run that learns less is no faster run.

Accuracies are compared by the choice of the test samples. Without one it is the last evaluation's figure, or else the
training loss: the means of two cells may differ by 2%, by 0.1% of what the loss was at first, or by what the spread of
the repeats explains, up to 10%.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, variance

from runner.records.quality import TRAINING_LOSS
from runner.report.rows import CellRuns
from runner.report.run_summary import RunSummary
from runner.report.statistics import Difference, accuracies_agree

AGREEING_SHARE = 0.005
"""Accuracies of unknown numbers of samples may differ by this much."""
LOSS_SHARE = 0.02
FIRST_SHARE = 0.001
"""Of the first loss: what is left to learn near zero is worth no refusal."""
SPREAD_SHARE = 0.1
"""However far repeats spread, they do not make losses equal that differ by more."""


def learned_differs(cell: CellRuns, base: CellRuns) -> str | None:
    """Return how two cells differ in what they have learned; None if they do not, or if no run says anything of it."""
    return _accuracy_differs(cell, base) if _has_accuracy(cell, base) else _figures_differ(cell, base)


def is_learning_known(runs: Iterable[RunSummary]) -> bool:
    """Return whether every run says what it has learned."""
    return all(run.accuracy is not None or run.learned for run in runs)


def _has_accuracy(*sides: CellRuns) -> bool:
    return any(run.accuracy is not None for side in sides for run in side.complete)


def _accuracy_differs(cell: CellRuns, base: CellRuns) -> str | None:
    """Say that the choice of test samples does not explain how much the accuracies of two cells differ."""
    for side in (cell, base):
        lacking = sum(run.accuracy is None for run in side.complete)
        if 0 < lacking < len(side.complete):
            return f"accuracy differs: none in {lacking} of {len(side.complete)} runs of {side.first.layout}"
    ours, theirs = cell.mean("accuracy"), base.mean("accuracy")
    if ours is None or theirs is None:
        words = ("none" if mean is None else f"{mean:.2%}" for mean in (ours, theirs))
        return f"accuracy differs: {' against '.join(words)}"
    samples = cell.complete[0].eval_samples  # of all runs, because others are other work; 0 where no run says it
    agree = accuracies_agree(ours, samples, theirs, samples) if samples else abs(ours - theirs) <= AGREEING_SHARE
    return None if agree else f"accuracy differs: {ours:.2%} against {theirs:.2%}"


def _figures_differ(cell: CellRuns, base: CellRuns) -> str | None:
    """Compare the most telling figure of all runs; one that some of them lack may be any there."""
    runs = [*cell.complete, *base.complete]
    name = next((name for run in runs for name in run.learned if name != TRAINING_LOSS), TRAINING_LOSS)
    lacking = [run for run in runs if name not in run.learned]
    if len(lacking) == len(runs):
        return None
    if lacking:
        return f"{name} differs: none in {len(lacking)} of {len(runs)} runs, the first of {lacking[0].layout}"
    ours, theirs = ([run.learned[name][1] for run in side.complete] for side in (cell, base))
    values = " against ".join(f"{fmean(side):.4g}" for side in (ours, theirs))
    if not all(map(math.isfinite, [*ours, *theirs])):
        return f"{name} differs: {values}"
    most = _most_apart(ours, theirs, [run.learned[name][0] for run in runs])
    if abs(fmean(ours) - fmean(theirs)) <= most:
        return None
    return f"{name} differs: {values}, by more than {most:.2g}"


def _most_apart(ours: Sequence[float], theirs: Sequence[float], first: Sequence[float]) -> float:
    """Return by how much the means of two cells may differ."""
    smaller = min(abs(fmean(ours)), abs(fmean(theirs)))
    at_first = fmean(abs(value) for value in first if math.isfinite(value)) if any(map(math.isfinite, first)) else 0.0
    samples = tuple((variance(side) if len(side) > 1 else None, len(side)) for side in (ours, theirs))
    spread = Difference(fmean(ours) - fmean(theirs), samples).half_width or 0.0
    return max(LOSS_SHARE * smaller, FIRST_SHARE * at_first, min(spread, SPREAD_SHARE * smaller))
