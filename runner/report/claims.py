"""When a speed-up may be claimed; everything else is shown with the reason why it may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.core.layout import Layout
from runner.core.text import one_line
from runner.core.values import by_value
from runner.report.repeats import FEWEST
from runner.report.statistics import SIGNIFICANT, accuracies_agree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from runner.report.rows import CellRuns
    from runner.report.run_summary import RunSummary
    from runner.report.statistics import Estimate

AGREEING_SHARE = 0.005
"""Accuracies of unknown numbers of samples may differ by this much."""
UNKNOWN = "None"
"""How a value of `RunSummary.same` reads that a record does not have."""
_LONGEST_VALUE = 24


def refusal(cell: CellRuns, base: CellRuns | None, elsewhere: CellRuns | None = None) -> str | None:
    """Return why the speed-up of a cell over its baseline may not be claimed, however large it is; None if it may.

    Args:
        cell: the cell.
        base: its baseline, if there is one.
        elsewhere: the same cell as the baseline, of runs that were made in another way.
    """
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
        return "heterogeneous devices have no baseline" if run.heterogeneous else _no_baseline(run, elsewhere)
    runs = [*cell.complete, *base.complete]
    return (
        _doubtful(cell, base)
        or not_complete(cell, base)
        or _too_few(cell, base)
        or disturbed(runs)
        or differing(runs)
        or _work_differs(runs)
        or accuracy_differs(cell, base)
    )


def not_shown(speedup: Estimate | None, adjusted_p: float | None) -> str | None:
    """Return why the repeats do not show a difference, together with the other rows of the table; None if they do."""
    if speedup is None or speedup.low is None or speedup.high is None or adjusted_p is None:
        return "no interval"
    if speedup.low <= 1 <= speedup.high:
        return "the interval includes 1"
    return f"p = {adjusted_p:.2g} among all rows (Holm)" if adjusted_p >= SIGNIFICANT else None


def _no_baseline(run: RunSummary, elsewhere: CellRuns | None) -> str:
    """Say what keeps a cell without a baseline from one that there is."""
    differ = settings_differ([run, elsewhere.first]) if elsewhere else []
    if not differ:
        return "no one-process run on the same hardware to compare with"
    return f"no one-process run like it: {'; '.join(differ)}"


def _doubtful(cell: CellRuns, base: CellRuns) -> str | None:
    """Look for a run on which nothing may rest, complete or not: the notes name each doubt."""
    for side in (cell, base):
        doubtful = [run for run in side.runs if run.doubts]
        if doubtful:
            return f"{len(doubtful)} of {len(side.runs)} runs of {side.first.layout} doubtful: {doubtful[0].doubts[0]}"
    return None


def not_complete(*sides: CellRuns) -> str | None:
    """Look for runs that are not complete."""
    for side in sides:
        if bad := len(side.runs) - len(side.complete):
            return f"{bad} of {len(side.runs)} runs of {side.first.layout} not complete"
    return None


def _too_few(cell: CellRuns, base: CellRuns) -> str | None:
    fewest = min(len(cell.complete), len(base.complete))
    return f"n = {fewest}, needs {FEWEST} on both sides" if fewest < FEWEST else None


def disturbed(runs: Iterable[RunSummary]) -> str | None:
    """Look for a run in which the machine did something else besides; the notes name each."""
    for run in runs:
        if run.disturbed:
            return f"disturbed: {run.disturbed[0]} during {run.cell} repeat {run.repeat}"
    return None


def differing(runs: list[RunSummary], may_differ: Collection[str] = ()) -> str | None:
    """Look for anything but the layout and the axes that differs between two of the runs: name it, and both values."""
    first = runs[0].same
    if all(run.same == first for run in runs):
        return None
    ignored = {*may_differ, "NCCL"} if runs[0].device == "cpu" else may_differ
    names = [name for name in first if name not in ignored]
    found = [two_values(name, [run.same.get(name, "") for run in runs]) for name in names]
    return "; ".join(one for one in found if one) or None


def is_code_known(runs: Iterable[RunSummary]) -> bool:
    """Whether each run says which code it ran; else it is the same as that of another one that does not."""
    return all(run.same.get("code", UNKNOWN) not in ("", UNKNOWN) for run in runs)


def settings_differ(runs: list[RunSummary], may_differ: Collection[str] = ()) -> list[str]:
    """Return what differs in where runs were made and what they were told to do, each with two values."""
    fields = {name: [str(getattr(run, name)) for run in runs] for name in ("target", "hardware", "scaling", "measure")}
    if "program" not in may_differ:
        fields["program"] = [run.program for run in runs]
    if "args" not in may_differ:
        for arg in dict.fromkeys(arg for run in runs for arg in run.args):
            fields[arg] = [str(by_value(run.args.get(arg, "none"))) for run in runs]
    return [found for name, values in fields.items() if (found := two_values(name, values))]


def _work_differs(runs: list[RunSummary]) -> str | None:
    """Compare all of the work under strong scaling, and that of one process under weak scaling.

    Weak runs of a fixed data set train on the same samples in all; their batch per process is what has to be equal.
    """
    if runs[0].scaling != "strong":
        return two_values("batch per process", [f"{run.global_batch_size / run.processes:g}" for run in runs])
    return total_work_differs(runs)


def total_work_differs(runs: list[RunSummary]) -> str | None:
    """Compare what was trained: samples, steps, and the batch."""
    return (
        two_values("trained samples", [f"{run.trained_samples:,}" for run in runs])
        or two_values("steps", [f"{run.steps:,}" for run in runs])
        or two_values("global batch", [f"{run.global_batch_size:,}" for run in runs])
    )


def two_values(name: str, values: list[str]) -> str | None:
    """Name a field and two of its values, if it has more than one."""
    other = next((value for value in values if value != values[0]), None)
    return None if other is None else f"{name} differs: {' and '.join(_apart(values[0], other))}"


def _apart(*values: str) -> list[str]:
    """Cut two values so that what is left still differs: the hashes of images and code are long."""
    same = next((place for place, letters in enumerate(zip(*values, strict=False)) if len(set(letters)) > 1), 0)
    start = 0 if same < _LONGEST_VALUE else same
    return [one_line(value[start : start + _LONGEST_VALUE]) or "none" for value in values]


def accuracy_differs(cell: CellRuns, base: CellRuns) -> str | None:
    """Say that the choice of test samples does not explain how much the accuracies of two cells differ.

    One that some of the runs do not report may be any; None if no run reports one, because it does not train a model.
    """
    ours, theirs = cell.mean("accuracy"), base.mean("accuracy")
    if ours is None and theirs is None:
        return None
    for side in (cell, base):
        lacking = sum(run.accuracy is None for run in side.complete)
        if 0 < lacking < len(side.complete):
            return f"accuracy differs: none in {lacking} of {len(side.complete)} runs of {side.first.layout}"
    if ours is None or theirs is None:
        words = ("none" if mean is None else f"{mean:.2%}" for mean in (ours, theirs))
        return f"accuracy differs: {' against '.join(words)}"
    samples, others = _eval_samples(cell), _eval_samples(base)
    if samples and others:
        agree = accuracies_agree(ours, samples, theirs, others)
    else:  # a program that does not say of how many samples they are
        agree = abs(ours - theirs) <= AGREEING_SHARE
    return None if agree else f"accuracy differs: {ours:.2%} against {theirs:.2%}"


def _eval_samples(cell: CellRuns) -> int:
    """Return of how many samples a cell's accuracies are, at most, because more explain less; 0 if a run says none."""
    counts = [run.eval_samples for run in cell.complete]
    return max(counts) if all(counts) else 0
