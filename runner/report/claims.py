"""Decide whether a speed-up may be claimed, and why not.

No speed-up may be claimed if the faster runs learn less. Accuracies must agree within the sampling error of the test
set. Runs without an accuracy are compared by their last evaluation, or by the training loss if they have no evaluation.
The means of two cells may differ by 2%, or by 0.1% of the initial loss. If the spread of the repeats explains the
difference, it may be up to 10%.

A machine is identified by its boot id, which all its containers share. A machine without a known boot id is identified
by its name. Two cells are comparable if they do at least two thirds of their work on the same machines. If one cell has
more nodes, its extra machines are ignored. Two cells are also comparable if no two runs of a cell share a machine,
because the spread of each cell then includes the differences between machines.
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
"""The value in `RunSummary.same` of a property that the record lacks."""
KIND_UNKNOWN = "the kind of scaling is unknown"
_LONGEST_VALUE = 24
AGREEING_SHARE = 0.005
"""Largest difference of accuracies if the number of test samples is unknown."""
LOSS_SHARE = 0.02
FIRST_SHARE = 0.001
"""Share of the initial loss by which losses may differ. For losses near zero, a relative difference means little."""
OF_TRAINING = ("train_seconds", "total_seconds", "wall_seconds", "stated_seconds")
"""Measures that grow with the amount of training."""
PADDED_SHARE = 0.02
SPREAD_SHARE = 0.1
MOST_APART = 0.01
"""Relative difference in memory that equal machines may have: firmware and kernel reserve some MB."""
ENOUGH_SHARED = 2 / 3
"""Least share of work on the same machines. With a smaller share and ten repeats a side, differences between machines
look like a speed-up."""
_LONGEST_ID = 8
_MOST_NAMED = 3
_GB = 1e9


def refusal(cell: CellRuns, base: CellRuns | None, elsewhere: CellRuns | None, command: str) -> str | None:
    """Return why no speed-up over the baseline may be claimed, however large. Returns None if nothing forbids a claim.

    `elsewhere` is the baseline's cell in another block, for example on other hardware. `command` makes the runs of both
    cells.
    """
    run = cell.first
    if not cell.complete:
        return "no complete run"
    if run.device == "cpu" and run.processes > Layout.parse(run.layout).world_size:
        return "the devices share one CPU"
    if base and base.first is run:
        return "the baseline"
    if base is None or not base.complete:
        if run.heterogeneous:
            return "heterogeneous devices have no baseline"
        differ = "; ".join(settings_differ([run, elsewhere.first])) if elsewhere else ""
        none = f"no comparable run of its baseline: {differ}" if differ else "no complete run of its baseline"
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
    """Return why no speed-up can be computed from the times of a cell and its baseline. Returns None if one can."""
    runs = [*cell.complete, *base.complete]
    for doubt in (doubt for run in runs for doubt in run.doubts):
        if doubt.startswith(NO_TRAINING):
            return doubt
    counted = base.first.measure in OF_TRAINING and all(run.trained_samples for run in runs)
    return None if base.first.scaling or counted or base.first.measure == SAMPLE_SECONDS else KIND_UNKNOWN


def not_shown(row: Row) -> str | None:
    """Return why a row's repeats show no difference after Holm's correction; None if they show a difference."""
    speedup, p = row.speedup, row.adjusted_p
    if not speedup or speedup.low is None or speedup.high is None or p is None:
        return "no interval"
    if speedup.low <= 1 <= speedup.high:
        return "the interval includes 1"
    return f"p = {p:.2g} among all rows (Holm)" if p >= SIGNIFICANT else None


def _doubtful(cell: CellRuns, base: CellRuns) -> str | None:
    for side in (cell, base):
        if doubtful := [run for run in side.runs if run.doubts]:
            return f"{len(doubtful)} of {len(side.runs)} runs of {side.first.layout} doubtful: {doubtful[0].doubts[0]}"
    return None


def not_complete(sides: Iterable[tuple[str, CellRuns]]) -> str | None:
    """Find the first side with incomplete runs, and return how many it has. Returns None if all runs are complete."""
    for name, side in sides:
        if bad := len(side.runs) - len(side.complete):
            return f"{bad} of {len(side.runs)} runs of {name} not complete"
    return None


def disturbed(runs: Iterable[RunSummary]) -> str | None:
    """Describe the first run that was disturbed or whose load is unknown. Returns None if all runs were quiet.

    Programs without the kit report no load. Their runs, which have `sources`, are not refused. A note says that their
    load is unknown.
    """
    for run in runs:
        if run.disturbed:
            return f"disturbed: {run.disturbed[0]} during {run.cell} repeat {run.repeat}"
        if not run.load_known and not run.sources:
            return f"{run.cell} repeat {run.repeat} may have been disturbed: its record has no load"
    return None


def differing(runs: list[RunSummary], may_differ: Collection[str] = ()) -> str | None:
    """Name the differences between runs: in `same`, in `own_args` and in memory. Returns None if there are none."""
    ignored = {*may_differ, "NCCL"} if runs[0].device == "cpu" else may_differ
    found = two_of_each([run.same for run in runs], ignored)
    # Arguments that only one program has are compared among the runs of that program.
    for program in dict.fromkeys(run.program for run in runs) if "args" not in may_differ else ():
        found += two_of_each([_words(run.own_args) for run in runs if run.program == program])
    return "; ".join(filter(None, [*found, memory_differs(runs)])) or None


def two_of_each(each: list[dict[str, str]], may_differ: Collection[str] = ()) -> list[str]:
    """For each key whose value differs between mappings, return a sentence with two of the values."""
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
    """Return the assumptions of a comparison, if a run does not report its code, its accuracy or loss, or its load."""
    runs, found = list(runs), []
    if any(run.same.get("code", UNKNOWN) in ("", UNKNOWN) for run in runs):
        found.append("code unknown, assumed to be the same")
    if any(run.accuracy is None and not run.learned for run in runs):
        found.append("neither accuracy nor loss known, so what was learned is not compared")
    if not all(run.load_known for run in runs):
        found.append("load unknown, so other work on the machine is not ruled out")
    return found


def settings_differ(runs: list[RunSummary], may_differ: Collection[str] = ()) -> list[str]:
    """Return the differences between runs in target, hardware, scaling, measure, program and arguments."""
    names = ("target", "hardware", "scaling", "measure", "program")
    settings = [{name: str(getattr(run, name) or "unknown") for name in names} for run in runs]
    args = [{} if "args" in may_differ else _words(run.args) for run in runs]
    return two_of_each(settings, may_differ) + two_of_each(args)


WORK: dict[str, Callable[[RunSummary], str]] = {
    "trained samples": lambda run: f"{run.trained_samples:,}",
    "steps": lambda run: f"{run.steps:,}",
    "global batch": lambda run: f"{run.global_batch_size:,}",
    "batch per process": lambda run: f"{run.global_batch_size / run.processes:g}",
    "test samples": lambda run: f"{run.eval_samples:,}",
}


def _differs_in(runs: Iterable[RunSummary], *names: str) -> str | None:
    return next(iter(two_of_each([{name: WORK[name](run) for name in names} for run in runs])), None)


def total_work_differs(runs: Sequence[RunSummary]) -> str | None:
    """Name the first difference in the total work of runs: samples, steps or batch. Returns None if there is none.

    Scripts pad or drop the last batch of an epoch. If the trained samples of scripts differ by at most `PADDED_SHARE`,
    neither these samples nor the steps are compared.
    """
    samples = [run.trained_samples for run in runs]
    padded = runs[0].measure == SAMPLE_SECONDS and max(samples) <= min(samples) * (1 + PADDED_SHARE)
    return _differs_in(runs, *([] if padded else ["trained samples", "steps"]), "global batch", "test samples")


def _work_differs(cell: CellRuns, base: CellRuns) -> str | None:
    """Name the first difference in work: in total under strong scaling, per process under weak scaling.

    If the scaling is unknown, the total work or the work per process must be equal. Weak runs over a fixed data set all
    train on the same number of samples, so the batch per process is compared.
    """
    runs, scaling = [*cell.complete, *base.complete], cell.first.scaling
    if cell.first.measure == SAMPLE_SECONDS:
        return _work_of_script_differs(cell, base, runs)
    if scaling == "strong" or not (scaling or total_work_differs(runs)):
        return total_work_differs(runs)
    if not any(run.trained_samples for run in runs):
        return "weak scaling, but the work of the runs is not counted"
    one_of_each = [cell.complete[0], base.complete[0]]
    return (
        _differs_in(runs, "batch per process")
        or _differs_in(cell.complete, "trained samples")
        or _differs_in(base.complete, "trained samples")
        or (None if all(run.trained_samples for run in one_of_each) else _differs_in(one_of_each, "trained samples"))
        or _differs_in(runs, "test samples")
    )


def _work_of_script_differs(cell: CellRuns, base: CellRuns, runs: list[RunSummary]) -> str | None:
    run, scaling, each = cell.first, scaling_of(cell, base), cell.first.samples_of_each_process
    shared_out = run.scaling == "weak" or run.processes <= base.first.processes  # weak processes have their own data
    if each and each == base.first.samples_of_each_process and not shared_out:
        return f"each process got all {each:,} samples: the data is not split between them (use DistributedSampler)"
    if scaling == "strong":
        return total_work_differs(runs)
    if not scaling and not all(run.global_batch_size for run in runs):
        return "the batch size could not be counted: pass --scaling strong if it is the same in all layouts, else weak"
    return _differs_in(runs, "batch per process", "test samples")


def _apart(*values: str) -> list[str]:
    same = next((place for place, letters in enumerate(zip(*values, strict=False)) if len(set(letters)) > 1), 0)
    start = 0 if same < _LONGEST_VALUE else same
    return [value[start : start + _LONGEST_VALUE].strip() or "none" for value in values]


def learned_differs(cell: CellRuns, base: CellRuns) -> str | None:
    """Return how two cells differ in what they learned. Returns None if they do not differ, or no run has a figure.

    The accuracy is compared. If no run has an accuracy, another evaluation figure is compared, or else the training
    loss. If only some runs have the figure, this counts as a difference.
    """
    runs = [*cell.complete, *base.complete]
    name = next((name for run in runs for name in run.learned if name != TRAINING_LOSS), TRAINING_LOSS)
    if has_accuracy := any(run.accuracy is not None for run in runs):
        name = "accuracy"
    lacking = [run for run in runs if (run.accuracy is None if has_accuracy else name not in run.learned)]
    if len(lacking) == len(runs):
        return None
    if lacking:
        return f"{name} differs: missing in {len(lacking)} of {len(runs)} runs, the first of {lacking[0].layout}"
    return _accuracy_differs(cell, base) if has_accuracy else _figures_differ(name, cell, base)


def _accuracy_differs(cell: CellRuns, base: CellRuns) -> str | None:
    ours, theirs = (fmean(run.accuracy or 0.0 for run in side.complete) for side in (cell, base))
    samples = cell.complete[0].eval_samples  # equal in all runs, or refused before; 0 if unknown
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
    """Name two amounts of memory that differ too much for machines of one kind. Returns None if all amounts agree."""
    known = [run.memory for run in runs if run.memory]
    if known and len(known) < len(runs):
        return f"memory differs: {UNKNOWN_FACT} and {known[0][0] / _GB:.1f} GB"
    least, most = min((run[0] for run in known), default=0.0), max((run[1] for run in known), default=0.0)
    apart = least < most * (1 - MOST_APART)
    return f"memory differs: {least / _GB:.1f} GB and {most / _GB:.1f} GB" if apart else None


def machine_decides(a: CellRuns, b: CellRuns, names: tuple[str, str]) -> str | None:
    """Return why the machines of two cells may cause their difference. Returns None if this is ruled out."""
    used = _used(a.complete, b.complete)
    for name, runs in zip(names, used, strict=True):
        if any("" in machines or not machines for machines in runs):
            return f"the machine that {name} ran on is unknown"
    # If no two runs of a cell share a machine, their spread includes the spread between machines.
    if _shared(*used) or all(sum(map(len, runs)) == len(set().union(*runs)) for runs in used):
        return None
    ran = (f"{name} on {_named(side.complete)}" for name, side in zip(names, (a, b), strict=True))
    return f"the difference may come from the machines: {', '.join(ran)}"


def count_machines(runs: Sequence[RunSummary]) -> int:
    """Count the distinct known machines of some runs."""
    return len({machine for machines in _used(runs)[0] for machine in machines} - {""})


def _shared(a: list[set[str]], b: list[set[str]]) -> bool:
    shares, sizes = (_shares(a), _shares(b)), sorted(fmean(map(len, side)) for side in (a, b))
    common = sum(min(shares[0][machine], shares[1][machine]) for machine in shares[0])
    return common >= ENOUGH_SHARED * sizes[0] / sizes[1] - 1e-9


def _shares(runs: list[set[str]]) -> defaultdict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for machines in runs:
        for machine in machines:
            found[machine] += 1 / (len(machines) * len(runs))
    return found


def _used(*sides: Sequence[RunSummary]) -> list[list[set[str]]]:
    ids = {name: id_ for side in sides for run in side for id_, name in run.machines if id_ and name}
    return [[{id_ or ids.get(name, name) for id_, name in run.machines} for run in side] for side in sides]


def _named(runs: Iterable[RunSummary]) -> str:
    found = dict.fromkeys(machine for run in runs for machine in run.machines)
    words = [f"{name} ({id_[:_LONGEST_ID]})" if id_ and name else name or id_[:_LONGEST_ID] for id_, name in found]
    return listed(words, most=_MOST_NAMED)
