"""Proof level 2: compare a run with its repetition."""

from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from runner.core.errors import reason_of
from runner.core.layout import Layout
from runner.core.text import listed, one_line, shown
from runner.core.values import whole
from runner.records.events import Event, read_events
from runner.records.folder import RunFolder
from runner.records.schema import Record
from runner.tools.proof.integrity import Check, repeat_with
from trainkit import files

CAUSES = (
    *("sources_sha256", "program_sha256", "torch", "python", "cuda", "nccl", "threads"),
    *("device_name", "device", "backend", "world_size"),
)
"""Facts that each rank reports, and that may explain why a run does not repeat."""
_INPUTS = ("data_sha256", "split_sha256")
MOST_VALUES = 2_000_000
_EXACT = ("_hex", "_sha256")
_FIELDS = ("correct", "samples", "trained_samples", "steps", "outcome", "before", "after")
_POINTS = ("parameters", "loss", "seed", "global_batch_size", "train_samples", "eval_samples", "eval_accuracy", "split")
_PROVES = ("parameters", "loss", "loss_hex", "after")
"""Fields of a loss, a hash of the model, or an outcome. If a run reports none of them, equal values prove nothing."""


def compare(before: Path, old: Record, after: Path, new: Record) -> Check:
    """Compare all values that two runs of a cell report. `before` and `after` are the runs' folders."""
    name = "bit for bit"
    if new.status != "completed":
        return Check(name, False, f"the new run is {new.status}: {one_line(new.reason or '', 300)}")
    try:
        was, now = read_values(before, old), read_values(after, new)
    except OSError as error:
        return Check(name, None, one_line(f"the raw output cannot be read: {reason_of(error)}"))
    if not any(value.place.rpartition(" ")[2] in _PROVES for values in was.values() for value in values):
        return Check(name, None, "the program reports neither losses nor a hash of its parameters")
    differs = first_divergence(was, now)
    if differs is not None:
        return Check(name, False, f"the first difference is at {differs}; {explain(old, new)}")
    if old.launch.code.get("sources_sha256") != new.launch.code.get("sources_sha256"):
        return Check(name, False, "the values are the same, but the programs differ")
    count = sum(map(len, was.values()))
    parameters = one_line(old.facts.get("parameters_sha256") or "none", 12).removesuffix("...")
    return Check(name, True, f"{count:,} values of {len(was)} ranks are the same; parameters {parameters}")


def explain(old: Record, new: Record) -> str:
    """Name the differences between two runs that may explain unequal values, such as the number of threads."""
    pairs = [(name, _facts(old, name), _facts(new, name)) for name in CAUSES]
    pairs += [(name, [shown(old.facts.get(name), 16)], [shown(new.facts.get(name), 16)]) for name in _INPUTS]
    causes = [f"{name} {listed(was)} before, {listed(now)} now" for name, was, now in pairs if was != now]
    if "repeat_with" in old.facts and not repeat_with(old):
        causes.append("the run followed the clock, and did not report the arguments that repeat it")
    args, ignored = (old.launch.args, new.launch.args), ("data_dir", *repeat_with(old))
    changed = [name for name in {**args[0], **args[1]} if args[0].get(name) != args[1].get(name)]
    changed = [name for name in changed if name not in ignored]
    causes += [f"args {listed(changed)}"] if changed else []
    return (
        "; ".join(causes)
        or "inputs, versions, threads and device are the same: the program itself is not deterministic"
    )


def _facts(record: Record, name: str) -> list[str]:
    return sorted({one_line(rank.facts.get(name), 80) for rank in record.ranks})


class Value(NamedTuple):
    """A reported value and its place: the epoch or batch, the event and the field."""

    place: str
    value: Any


def read_values(path: Path, record: Record) -> dict[int, list[Value]]:
    """Read the values of each rank of a run, in order of reporting. Raises OSError if a raw file is missing."""
    by_rank: dict[int, list[Value]] = {}
    steps: dict[int, int] = {}
    count = 0
    for first, file_path in RunFolder(path).raw_files(Layout.parse(record.launch.layout)).printed():
        with files.open_file(file_path, below=path) as file:
            for events, _ in read_events(file):
                for event in events:
                    rank = whole(event.metadata.get("rank"), 0, 1_000_000)
                    reporter = first if rank is None else rank
                    values = _values_of(event, reporter, steps)
                    count += len(values)
                    if count <= MOST_VALUES:
                        by_rank.setdefault(reporter, []).extend(values)
    return by_rank


def first_divergence(before: dict[int, list[Value]], after: dict[int, list[Value]]) -> str | None:
    """Name the earliest value that differs, with its rank. Returns None if no value differs.

    Ranks report different numbers of values, so a value's position is counted as a share of all values of its rank. If
    several ranks differ first at the same position, the lowest rank is named.
    """
    differences: list[tuple[float, int, str]] = []
    for rank in sorted({*before, *after}):
        pairs = list(zip_longest(before.get(rank, []), after.get(rank, [])))
        at = next((at for at, (old, new) in enumerate(pairs) if old != new), None)
        if at is not None:
            old, new = pairs[at]
            was, now = (None if value is None else value.value for value in pairs[at])
            words = f"rank {rank}, {(old or new).place}: {shown(was, 80)} before, {shown(now, 80)} now"
            differences.append((at / len(pairs), rank, words))
    return min(differences)[2] if differences else None


def _values_of(event: Event, rank: int, steps: dict[int, int]) -> list[Value]:
    if event.key == "run_start":  # its fields describe the programs, which are inputs
        return []
    fields = event.metadata
    place = _place(event, rank, steps)
    exact = [name for name in sorted(fields) if name in _FIELDS or name.endswith(_EXACT)]
    values = [Value(f"{place} {name}", fields[name]) for name in exact]
    # If a loss has an exact form, only the exact form is compared.
    if event.key in _POINTS and "loss_hex" not in fields:
        values.append(Value(place if place.endswith(event.key) else f"{place} {event.key}", event.value))
    return values


def _place(event: Event, rank: int, steps: dict[int, int]) -> str:
    fields = event.metadata
    epoch, batch = whole(fields.get("epoch_num")), whole(fields.get("batch"))
    if epoch is not None:
        if event.key == "epoch_stop" and (made := whole(fields.get("steps"))):
            first = steps.get(rank, 0)
            steps[rank] = first + made
            return f"epoch {epoch} (steps {first + 1} to {first + made}), {event.key}"
        return f"epoch {epoch}, {event.key}"
    if batch is not None:
        return f"step {batch}, {event.key}"
    return f"{event.key} {shown(event.value, 40)}" if event.key == "lesson" else event.key
