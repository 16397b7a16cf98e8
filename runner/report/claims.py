"""When a speed-up may be claimed; everything else is shown with the reason why it may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.core.layout import Layout
from runner.report.statistics import accuracies_agree

if TYPE_CHECKING:
    from runner.report.rows import CellRuns
    from runner.report.run_summary import RunSummary
    from runner.report.statistics import Estimate

REPEATS_NEEDED = 3


def refusal(cell: CellRuns, base: CellRuns | None, speedup: Estimate | None) -> str | None:
    """Return why the speed-up of a cell over its baseline may not be claimed, or None if it may."""
    run = cell.first
    if run.target == "replay":
        return "replayed, not measured here"
    if not cell.complete:
        return "no complete run"
    if run.device == "cpu" and run.processes > Layout.parse(run.layout).world_size:
        return "its devices are one CPU"
    if base is cell:
        return "the baseline"
    if base is None or not base.complete:
        missing = "no one-process run on the same hardware to compare with"
        return "heterogeneous devices have no baseline" if run.heterogeneous else missing
    return (
        _doubtful(cell, base)
        or _too_few(cell, base)
        or _not_the_same(cell, base)
        or _not_as_accurate(cell, base)
        or _no_difference(speedup)
    )


def _doubtful(cell: CellRuns, base: CellRuns) -> str | None:
    """Look for a run on which nothing may rest, complete or not: the notes name each doubt."""
    for side in (cell, base):
        doubtful = [run for run in side.runs if run.doubts]
        if doubtful:
            return f"{len(doubtful)} of {len(side.runs)} runs of {side.first.layout} doubtful: {doubtful[0].doubts[0]}"
    return None


def _too_few(cell: CellRuns, base: CellRuns) -> str | None:
    for side in (cell, base):
        if bad := len(side.runs) - len(side.complete):
            return f"{bad} of {len(side.runs)} runs of {side.first.layout} not complete"
    fewest = min(len(cell.complete), len(base.complete))
    return f"n = {fewest}, needs {REPEATS_NEEDED} on both sides" if fewest < REPEATS_NEEDED else None


def _not_the_same(cell: CellRuns, base: CellRuns) -> str | None:
    """Look for anything but the layout and the axes that differs between two of the runs."""
    runs = [*cell.complete, *base.complete]
    first = runs[0].same
    if any(run.same != first for run in runs):
        ignored = {"NCCL"} if cell.first.device == "cpu" else set()
        differing = [name for name in first if len({run.same.get(name) for run in runs}) > 1 and name not in ignored]
        if differing:
            return f"{' and '.join(differing)} differ{'s' if len(differing) == 1 else ''} between the runs"
    if len({_work(run) for run in runs}) > 1:
        return "total work differs between the runs"
    return None


def _work(run: RunSummary) -> tuple[float, ...]:
    """Return what has to be equal: all of the work under strong scaling, that of one process under weak scaling.

    Weak runs of a fixed data set train on the same samples in all; their batch per process is what has to be equal.
    """
    if run.scaling == "strong":
        return (run.trained_samples, run.steps, run.global_batch_size)
    return (run.global_batch_size / run.processes,)


def _not_as_accurate(cell: CellRuns, base: CellRuns) -> str | None:
    ours, theirs = cell.mean("accuracy"), base.mean("accuracy")
    if ours is None or theirs is None:
        return None
    samples, others = cell.complete[0].eval_samples, base.complete[0].eval_samples
    if samples and others and not accuracies_agree(ours, samples, theirs, others):
        return f"accuracy differs: {ours:.2%} against {theirs:.2%}"
    return None


def _no_difference(speedup: Estimate | None) -> str | None:
    if speedup is None or speedup.low is None or speedup.high is None:
        return "no interval"
    return "the interval includes 1" if speedup.low <= 1 <= speedup.high else None
