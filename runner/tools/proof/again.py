"""Levels 2 to 4: a run and one that was made again from its record, compared."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import msgspec

from runner.core.text import listed, one_line, shown
from runner.core.values import number
from runner.records.schema import Launch, Record
from runner.report.machines import kind_differs
from runner.report.run_summary import RunSummary, summary_of
from runner.report.statistics import accuracies_agree, t_quantile
from runner.tools.proof.level import Check
from runner.tools.proof.values import first_divergence, proves, read_values

CAUSES = {
    "inputs": ("sources_sha256", "program_sha256"),
    "versions": ("torch", "python", "cuda", "nccl"),
    "threads": ("threads",),
    "device": ("device_name", "device", "backend", "world_size"),
}
"""What may explain that a run does not repeat, by the facts that each rank reports of itself."""
_RESULTS = ("data_sha256", "split_sha256")


def compare(before: Path, old: Record, after: Path, new: Record, earlier: list[RunSummary]) -> list[Check]:
    """Compare two runs of the same cell, one check for each of the levels 2, 3 and 4.

    Args:
        before: the folder of the first run.
        old: its record.
        after: the folder of the run that was made again.
        new: its record.
        earlier: all earlier runs of the cell, the first one among them, for the interval of their time.
    """
    if new.status != "completed":
        why = f"the run that was made again is {new.status}: {one_line(new.reason or '', 300)}"
        return [Check(name, False, why) for name in ("bit for bit", "accuracy", "time")]
    return [_bits(before, old, after, new), _accuracy(old, new), _time(summary_of(new), earlier)]


def repeat_with(record: Record) -> dict[str, str]:
    """Return the arguments by which a run that followed the clock is repeated, as it reported them at its end."""
    told = record.facts.get("repeat_with")
    chosen = told.items() if isinstance(told, dict) else ()
    return {name: value for name, value in chosen if name in record.launch.args and isinstance(value, str)}


def chosen_by_the_clock(record: Record) -> str:
    """Name what a run chose by the clock, as arguments; nothing if it chose nothing."""
    return one_line(" ".join(f"{name}={value}" for name, value in repeat_with(record).items()), 200)


def as_it_came_out(record: Record) -> Launch:
    """Return a run's launch with what it chose by the clock given beforehand."""
    return msgspec.structs.replace(record.launch, args={**record.launch.args, **repeat_with(record)})


def explain(old: Record, new: Record) -> str:
    """Name what differs between two runs that may explain that their values do, for example the number of threads."""
    found = []
    for cause, names in CAUSES.items():
        for name in names:
            one, other = _facts(old, name), _facts(new, name)
            if one != other:
                found.append(f"{cause}: {name} {listed(one)} before, {listed(other)} now")
    for name in _RESULTS:
        was, now = old.facts.get(name), new.facts.get(name)
        if was != now:
            found.append(f"inputs: {name} {shown(was, 16)} before, {shown(now, 16)} now")
    if "repeat_with" in old.facts and not repeat_with(old):
        found.append("the run followed the clock, and has not reported the arguments that repeat it")
    changed = [
        name
        for name in {**old.launch.args, **new.launch.args}
        if name not in repeat_with(old) and _arg(old, name) != _arg(new, name)
    ]
    if changed:
        found.append(f"inputs: args {listed(changed)}")
    return "; ".join(found) or "inputs, versions, threads and device are the same: the program itself does not repeat"


def _bits(before: Path, old: Record, after: Path, new: Record) -> Check:
    name = "bit for bit"
    try:
        was, now = read_values(before, old), read_values(after, new)
    except OSError as error:
        return Check(name, None, one_line(f"the raw output cannot be read: {error.strerror or error}"))
    if not proves(was):
        return Check(name, None, "the program reports neither losses nor a hash of its parameters")
    differs = first_divergence(was, now)
    if differs is None:
        count = sum(map(len, was.values()))
        parameters = one_line(old.facts.get("parameters_sha256") or "none", 12).removesuffix("...")
        return Check(name, True, f"{count:,} values of {len(was)} ranks are the same; parameters {parameters}")
    return Check(name, False, f"the first difference is at {differs}; {explain(old, new)}")


def _accuracy(old: Record, new: Record) -> Check:
    """Compare the final accuracies by what the choice of so many test samples explains."""
    one, other = _counts(old), _counts(new)
    if one is None or other is None:
        return Check("accuracy", None, "the program reports no counts of right answers")
    agree = accuracies_agree(one[0] / one[1], one[1], other[0] / other[1], other[1])
    words = f"{one[0]} of {one[1]} before, {other[0]} of {other[1]} now"
    return Check("accuracy", agree, words)


def _time(new: RunSummary, earlier: list[RunSummary]) -> Check:
    """Compare a time with the interval in which 95% of further runs like the earlier ones lie.

    mean ± t(n - 1) s sqrt(1 + 1/n) of the logarithms: the prediction interval of one further value.
    """
    name, seconds = "time", new.seconds
    others = [(kind_differs([one, new]), one.seconds) for one in earlier]
    alike = [one for differs, one in others if one and not differs]
    if seconds is None:
        return Check(name, None, f"it has no {new.measure}")
    if others and not alike:
        return Check(name, None, f"another kind of machine: {others[0][0] or 'the earlier runs have no time'}")
    if len(alike) < 2:  # noqa: PLR2004 - one value has no spread
        return Check(name, None, f"{seconds:.3g} s; one earlier run has no interval: {alike[0]:.3g} s")
    logs = [math.log(one) for one in alike]
    half = t_quantile(len(logs) - 1) * stdev(logs) * math.sqrt(1 + 1 / len(logs))
    low, high = math.exp(fmean(logs) - half), math.exp(fmean(logs) + half)
    words = f"{seconds:.3g} s; 95% of further runs like the {len(alike)} earlier ones take {low:.3g} to {high:.3g} s"
    return Check(name, low <= seconds <= high, words)


def _facts(record: Record, name: str) -> list[str]:
    return sorted({one_line(rank.facts.get(name), 80) for rank in record.ranks})


def _arg(record: Record, name: str) -> Any:
    return None if name == "data_dir" else record.launch.args.get(name)


def _counts(record: Record) -> tuple[int, int] | None:
    """Return how many test samples the last evaluation got right, and of how many."""
    last = record.evaluations[-1] if record.evaluations else {}
    right, of = last.get("correct"), last.get("samples", record.facts.get("eval_samples"))
    if right is None and isinstance(of, int) and (accuracy := number(last.get("accuracy"), 0, 1)) is not None:
        right = round(accuracy * of)
    return (right, of) if isinstance(right, int) and isinstance(of, int) and 0 <= right <= of and of else None
