"""When a speed-up may be claimed; everything else is shown with the reason why it may not.

A faster run that learns less is no faster run. Accuracies are compared by the choice of the test samples. Without one
it is the last evaluation's figure, or else the training loss: the means of two cells may differ by 2%, by 0.1% of what
the loss was at first, or by what the spread of the repeats explains, up to 10%.

A machine is known by the id that its kernel drew at its start, which all containers on it share, or else by its name.
Times of two cells are compared where at least two thirds of the runs are on machines that both cells used alike, or
where no machine has two runs of a cell: then what machines do is in the spread of both. A cell of more nodes than the
other uses further machines, which count for neither.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import fmean, variance
from typing import Any

from runner.core.layout import Layout
from runner.core.text import listed
from runner.core.values import by_value
from runner.records.observed import SAMPLE_SECONDS
from runner.records.record_facts import TRAINING_LOSS
from runner.records.record_facts import UNKNOWN as UNKNOWN_FACT
from runner.records.schema import NO_TRAINING
from runner.report.order import shown_by
from runner.report.rows import CellRuns, Row, scaling_of
from runner.report.run_summary import RunSummary
from runner.report.statistics import FEWEST, SIGNIFICANT, Difference, accuracies_agree

UNKNOWN = "None"
"""How a value of `RunSummary.same` reads that a record does not have."""
KIND_UNKNOWN = "the kind of scaling is not known"
_LONGEST_VALUE = 24
AGREEING_SHARE = 0.005
"""Accuracies of unknown numbers of samples may differ by this much."""
LOSS_SHARE = 0.02
FIRST_SHARE = 0.001
"""Of the first loss: what is left to learn near zero is worth no refusal."""
OF_TRAINING = ("train_seconds", "total_seconds", "wall_seconds", "stated_seconds")
"""Measures that grow with what was trained."""
PADDED_SHARE = 0.02
SPREAD_SHARE = 0.1
"""However far repeats spread, they do not make losses equal that differ by more."""
MOST_APART = 0.01
"""By how much the memory of equal machines may differ: firmware and kernel keep some MB of it for themselves."""
ENOUGH_SHARED = 2 / 3
"""With fewer runs on the same machines, ten repeats on each side would show what the machines do as a difference."""
_LONGEST_ID = 8
_MOST_NAMED = 3
_GB = 1e9


def refusal(cell: CellRuns, base: CellRuns | None, elsewhere: CellRuns | None, command: str) -> str | None:
    """Return why the speed-up of a cell over its baseline may not be claimed, however large it is; None if it may.

    `elsewhere` is the baseline's cell of runs made in another way, `command` makes the runs of both cells.
    """
    run = cell.first
    if not cell.complete:
        return "no complete run"
    if run.device == "cpu" and run.processes > Layout.parse(run.layout).world_size:
        return "its devices are one CPU"
    if base and base.first is run:
        return "the baseline"
    if base is None or not base.complete:
        if run.heterogeneous:
            return "heterogeneous devices have no baseline"
        differ = "; ".join(settings_differ([run, elsewhere.first])) if elsewhere else ""
        none = f"no run of its baseline like it: {differ}" if differ else "no complete run of its baseline"
        return shown_by(none, command)
    fewest = min(len(cell.complete), len(base.complete))
    runs = [*cell.complete, *base.complete]
    return (
        incomparable(cell, base)
        or _doubtful(cell, base)
        or not_complete([(side.first.layout, side) for side in (cell, base)])
        or (f"n = {fewest}, needs {FEWEST} on both sides" if fewest < FEWEST else None)
        or disturbed(runs)
        or differing(runs)
        or machine_decides(cell, base, (run.cell, base.first.cell))
        or _work_differs(cell, base)
        or learned_differs(cell, base)
    )


def incomparable(cell: CellRuns, base: CellRuns) -> str | None:
    """Return why the times of a cell and of its baseline make no speed-up at all, not even one without a claim."""
    runs = [*cell.complete, *base.complete]
    for doubt in (doubt for run in runs for doubt in run.doubts):
        if doubt.startswith(NO_TRAINING):
            return doubt
    counted = base.first.measure in OF_TRAINING and all(run.trained_samples for run in runs)
    return None if base.first.scaling or counted or base.first.measure == SAMPLE_SECONDS else KIND_UNKNOWN


def not_shown(row: Row) -> str | None:
    """Return why the repeats do not show a difference, together with the other rows of the table; None if they do."""
    speedup, p = row.speedup, row.adjusted_p
    if not speedup or speedup.low is None or speedup.high is None or p is None:
        return "no interval"
    if speedup.low <= 1 <= speedup.high:
        return "the interval includes 1"
    return f"p = {p:.2g} among all rows (Holm)" if p >= SIGNIFICANT else None


def _doubtful(cell: CellRuns, base: CellRuns) -> str | None:
    """Look for a run on which nothing may rest, complete or not: the notes name each doubt."""
    for side in (cell, base):
        if doubtful := [run for run in side.runs if run.doubts]:
            return f"{len(doubtful)} of {len(side.runs)} runs of {side.first.layout} doubtful: {doubtful[0].doubts[0]}"
    return None


def not_complete(sides: Iterable[tuple[str, CellRuns]]) -> str | None:
    """Look for runs that are not complete, on sides with their names."""
    for name, side in sides:
        if bad := len(side.runs) - len(side.complete):
            return f"{bad} of {len(side.runs)} runs of {name} not complete"
    return None


def disturbed(runs: Iterable[RunSummary]) -> str | None:
    """Look for a run that other work disturbed, or where that cannot be ruled out.

    The notes name each disturbed run. A program that knows nothing of the kit reports no load: a note says so.
    """
    for run in runs:
        if run.disturbed:
            return f"disturbed: {run.disturbed[0]} during {run.cell} repeat {run.repeat}"
        if not run.load_known and not run.sources:
            return f"not known whether {run.cell} repeat {run.repeat} was disturbed: its record has no load"
    return None


def differing(runs: list[RunSummary], may_differ: Collection[str] = ()) -> str | None:
    """Look for anything but the layout and the axes that differs between two of the runs: name it, and both values."""
    ignored = {*may_differ, "NCCL"} if runs[0].device == "cpu" else may_differ
    found = two_of_each([run.same for run in runs], ignored)
    # The arguments of one program alone are compared between its own runs.
    for program in dict.fromkeys(run.program for run in runs) if "args" not in may_differ else ():
        found += two_of_each([_words(run.own_args) for run in runs if run.program == program])
    return "; ".join(filter(None, [*found, memory_differs(runs)])) or None


def two_of_each(each: list[dict[str, str]], may_differ: Collection[str] = ()) -> list[str]:
    """Return the name of each field that differs between some mappings, and two of its values."""
    names = dict.fromkeys(name for values in each for name in values if name not in may_differ)
    found = []
    for name in names:
        first, *others = (values.get(name, "none") for values in each)
        other = next((value for value in others if value != first), None)
        if other is not None:
            found.append(f"{name} differs: {' and '.join(_apart(first, other))}")
    return found


def _words(args: dict[str, Any]) -> dict[str, str]:
    return {name: str(by_value(value)) for name, value in args.items()}


def taken_for_granted(runs: Iterable[RunSummary]) -> list[str]:
    """Return what nothing shows of runs that are compared all the same, because none of them says it."""
    runs, found = list(runs), []
    if any(run.same.get("code", UNKNOWN) in ("", UNKNOWN) for run in runs):
        found.append("code unknown, and taken for the same")
    if any(run.accuracy is None and not run.learned for run in runs):
        found.append("what was learned is not known, for want of an accuracy and of a loss")
    if not all(run.load_known for run in runs):
        found.append("load unknown, so nothing shows that the machine was quiet")
    return found


def settings_differ(runs: list[RunSummary], may_differ: Collection[str] = ()) -> list[str]:
    """Return what differs in where runs were made and what they were told to do, each with two values."""
    names = ("target", "hardware", "scaling", "measure", "program")
    settings = [{name: str(getattr(run, name) or "not known") for name in names} for run in runs]
    args = [{} if "args" in may_differ else _words(run.args) for run in runs]
    return two_of_each(settings, may_differ) + two_of_each(args)


WORK: dict[str, Callable[[RunSummary], str]] = {
    "trained samples": lambda run: f"{run.trained_samples:,}",
    "steps": lambda run: f"{run.steps:,}",
    "global batch": lambda run: f"{run.global_batch_size:,}",
    "batch per process": lambda run: f"{run.global_batch_size / run.processes:g}",
    "test samples": lambda run: f"{run.eval_samples:,}",
}
"""What a run trained and tested, by name."""


def _differs_in(runs: Iterable[RunSummary], *names: str) -> str | None:
    """Name the first kind of work that differs between runs."""
    return next(iter(two_of_each([{name: WORK[name](run) for name in names} for run in runs])), None)


def total_work_differs(runs: Sequence[RunSummary]) -> str | None:
    """Compare what was trained and tested: samples, steps, and the batch.

    Of scripts the last batches of an epoch are padded or left out, so that a layout may train on a few samples more.
    """
    samples = [run.trained_samples for run in runs]
    padded = runs[0].measure == SAMPLE_SECONDS and max(samples) <= min(samples) * (1 + PADDED_SHARE)
    return _differs_in(runs, *([] if padded else ["trained samples", "steps"]), "global batch", "test samples")


def _work_differs(cell: CellRuns, base: CellRuns) -> str | None:
    """Compare all of the work under strong scaling, and that of one process under weak scaling; else either.

    Weak runs of a fixed data set train on the same samples in all; their batch per process is what has to be equal.
    How many samples a run trained on is known of both cells, and is the same in all runs of a cell.
    """
    runs, scaling = [*cell.complete, *base.complete], cell.first.scaling
    if cell.first.measure == SAMPLE_SECONDS:
        return _work_of_script_differs(cell, base, runs)
    if scaling == "strong" or not (scaling or total_work_differs(runs)):
        return total_work_differs(runs)
    if not any(run.trained_samples for run in runs):
        return "weak scaling, and the work of each run is not counted"
    one_of_each = [cell.complete[0], base.complete[0]]
    return (
        _differs_in(runs, "batch per process")
        or _differs_in(cell.complete, "trained samples")
        or _differs_in(base.complete, "trained samples")
        or (None if all(run.trained_samples for run in one_of_each) else _differs_in(one_of_each, "trained samples"))
        or _differs_in(runs, "test samples")
    )


def _work_of_script_differs(cell: CellRuns, base: CellRuns, runs: list[RunSummary]) -> str | None:
    """Compare the work of scripts, which are compared by their time for a sample."""
    run, scaling, each = cell.first, scaling_of(cell, base), cell.first.samples_of_each_process
    shared_out = run.scaling == "weak" or run.processes <= base.first.processes  # weak: each has its own data
    if each and each == base.first.samples_of_each_process and not shared_out:
        return f"each process was handed all {each:,} samples, as one alone: nothing is shared out (DistributedSampler)"
    if scaling == "strong":
        return total_work_differs(runs)
    if not scaling and not all(run.global_batch_size for run in runs):
        return "the batch of a step could not be counted: --scaling says whether it is the same in all layouts"
    return _differs_in(runs, "batch per process", "test samples")


def _apart(*values: str) -> list[str]:
    """Cut two values so that what is left still differs: the hashes of images and code are long."""
    same = next((place for place, letters in enumerate(zip(*values, strict=False)) if len(set(letters)) > 1), 0)
    start = 0 if same < _LONGEST_VALUE else same
    return [value[start : start + _LONGEST_VALUE].strip() or "none" for value in values]


def learned_differs(cell: CellRuns, base: CellRuns) -> str | None:
    """Return how two cells differ in their accuracies, else in the most telling figure of what they have learned.

    A figure that some runs lack may be any there. None if they do not differ, or if no run says anything of it.
    """
    runs = [*cell.complete, *base.complete]
    name = next((name for run in runs for name in run.learned if name != TRAINING_LOSS), TRAINING_LOSS)
    if has_accuracy := any(run.accuracy is not None for run in runs):
        name = "accuracy"
    lacking = [run for run in runs if (run.accuracy is None if has_accuracy else name not in run.learned)]
    if len(lacking) == len(runs):
        return None
    if lacking:
        return f"{name} differs: none in {len(lacking)} of {len(runs)} runs, the first of {lacking[0].layout}"
    return _accuracy_differs(cell, base) if has_accuracy else _figures_differ(name, cell, base)


def _accuracy_differs(cell: CellRuns, base: CellRuns) -> str | None:
    """Return how the accuracies of two cells differ by more than the choice of test samples explains."""
    ours, theirs = (fmean(run.accuracy or 0.0 for run in side.complete) for side in (cell, base))
    samples = cell.complete[0].eval_samples  # of all runs, because others are other work; 0 where no run says it
    agree = accuracies_agree(ours, theirs, samples) if samples else abs(ours - theirs) <= AGREEING_SHARE
    return None if agree else f"accuracy differs: {ours:.2%} against {theirs:.2%}"


def _figures_differ(name: str, cell: CellRuns, base: CellRuns) -> str | None:
    runs = [*cell.complete, *base.complete]
    ours, theirs = ([run.learned[name][1] for run in side.complete] for side in (cell, base))
    means = [fmean(ours), fmean(theirs)]
    values = f"{name} differs: {' against '.join(f'{mean:.4g}' for mean in means)}"
    if not all(map(math.isfinite, [*ours, *theirs])):
        return values
    smaller, apart = min(map(abs, means)), abs(means[0] - means[1])
    first = [abs(run.learned[name][0]) for run in runs if math.isfinite(run.learned[name][0])]
    samples = tuple((variance(side) if len(side) > 1 else None, len(side)) for side in (ours, theirs))
    spread = Difference(apart, samples).half_width() or 0.0
    most = max(LOSS_SHARE * smaller, FIRST_SHARE * fmean(first or [0.0]), min(spread, SPREAD_SHARE * smaller))
    return None if apart <= most else f"{values}, by more than {most:.2g}"


def memory_differs(runs: Sequence[RunSummary]) -> str | None:
    """Name two amounts of memory that no two equal machines have."""
    known = [run.memory for run in runs if run.memory]
    if known and len(known) < len(runs):
        return f"memory differs: {UNKNOWN_FACT} and {known[0][0] / _GB:.1f} GB"
    least, most = min((run[0] for run in known), default=0.0), max((run[1] for run in known), default=0.0)
    apart = least < most * (1 - MOST_APART)
    return f"memory differs: {least / _GB:.1f} GB and {most / _GB:.1f} GB" if apart else None


def machine_decides(a: CellRuns, b: CellRuns, names: tuple[str, str]) -> str | None:
    """Return why a difference between two cells may be one between their machines; None if it can be told apart."""
    used = _used(a.complete, b.complete)
    for name, runs in zip(names, used, strict=True):
        if any("" in machines or not machines for machines in runs):
            return f"not known on which machine {name} ran"
    # Or every run was made on machines of its own.
    if _shared(*used) or all(sum(map(len, runs)) == len(set().union(*runs)) for runs in used):
        return None
    ran = (f"{name} on {_named(side.complete)}" for name, side in zip(names, (a, b), strict=True))
    return f"the machine may make the difference: {', '.join(ran)}"


def count_machines(runs: Sequence[RunSummary]) -> int:
    """Count the known machines on which runs were made."""
    return len({machine for machines in _used(runs)[0] for machine in machines} - {""})


def _shared(a: list[set[str]], b: list[set[str]]) -> bool:
    """Return whether enough of the work of both sides was done on the same machines, as far as their sizes allow."""
    shares, sizes = (_shares(a), _shares(b)), sorted(fmean(map(len, side)) for side in (a, b))
    common = sum(min(shares[0][machine], shares[1][machine]) for machine in shares[0])
    return common >= ENOUGH_SHARED * sizes[0] / sizes[1] - 1e-9


def _shares(runs: list[set[str]]) -> defaultdict[str, float]:
    """Return which part of a side's work each machine did."""
    found: defaultdict[str, float] = defaultdict(float)
    for machines in runs:
        for machine in machines:
            found[machine] += 1 / (len(machines) * len(runs))
    return found


def _used(*sides: Sequence[RunSummary]) -> list[list[set[str]]]:
    """Return the machines of each run; one of which only the name is known is the one that has it with an id."""
    ids = {name: id_ for side in sides for run in side for id_, name in run.machines if id_ and name}
    return [[{id_ or ids.get(name, name) for id_, name in run.machines} for run in side] for side in sides]


def _named(runs: Iterable[RunSummary]) -> str:
    found = dict.fromkeys(machine for run in runs for machine in run.machines)
    words = [f"{name} ({id_[:_LONGEST_ID]})" if id_ and name else name or id_[:_LONGEST_ID] for id_, name in found]
    return listed(words, most=_MOST_NAMED)
