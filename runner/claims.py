"""When a speed-up may be claimed; everything else is shown with the reason why it may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.layout import Layout
from runner.statistics import accuracies_agree

if TYPE_CHECKING:
    from runner.compare import Row
    from runner.digest import Digest

REPEATS_NEEDED = 3


def refusal(row: Row) -> str | None:
    """Return why a row's speed-up may not be claimed, or None if it may."""
    if row.any.target == "replay":
        return "replayed, not measured here"
    if not row.complete:
        return "no complete run"
    if row.any.device == "cpu" and row.any.processes > Layout.parse(row.any.layout).world_size:
        return "its devices are one CPU"
    base = row.baseline
    if base is row:
        return "the baseline"
    if base is None or not base.complete:
        devices = "unlike devices have no baseline" if row.any.unlike else "no one-process run on the same hardware"
        return f"{devices} to compare with" if not row.any.unlike else devices
    return _too_few(row, base) or _not_the_same(row, base) or _not_as_accurate(row, base) or _no_difference(row)


def _too_few(row: Row, base: Row) -> str | None:
    for side in (row, base):
        if bad := len(side.runs) - len(side.complete):
            return f"{bad} of {len(side.runs)} runs of {side.any.layout} not complete"
    fewest = min(len(row.complete), len(base.complete))
    return f"n = {fewest}, needs {REPEATS_NEEDED} on both sides" if fewest < REPEATS_NEEDED else None


def _not_the_same(row: Row, base: Row) -> str | None:
    """Look for anything but the layout and the axes that differs between any two of the runs."""
    runs = [*row.complete, *base.complete]
    first = runs[0].same
    if any(run.same != first for run in runs):
        ignored = {"NCCL"} if row.any.device == "cpu" else set()
        differing = [name for name in first if len({run.same.get(name) for run in runs}) > 1 and name not in ignored]
        if differing:
            return f"{' and '.join(differing)} differ{'s' if len(differing) == 1 else ''} between the runs"
    if len({_work(run) for run in runs}) > 1:
        return "total work differs between the runs"
    return None


def _work(run: Digest) -> tuple[float, ...]:
    """Return what has to be equal: all of the work under strong scaling, that of one process under weak scaling.

    Weak runs of a fixed data set train on the same samples in all; their batch per process is what has to be equal.
    """
    if run.scaling == "strong":
        return (run.trained_samples, run.steps, run.global_batch_size)
    return (run.global_batch_size / run.processes,)


def _not_as_accurate(row: Row, base: Row) -> str | None:
    ours, theirs = row.mean("accuracy"), base.mean("accuracy")
    if ours is None or theirs is None:
        return None
    samples, others = row.complete[0].eval_samples, base.complete[0].eval_samples
    if samples and others and not accuracies_agree(ours, samples, theirs, others):
        return f"accuracy differs: {ours:.2%} against {theirs:.2%}"
    return None


def _no_difference(row: Row) -> str | None:
    speedup = row.speedup
    if speedup is None or speedup.low is None or speedup.high is None:
        return "no interval"
    return "the interval includes 1" if speedup.low <= 1 <= speedup.high else None
