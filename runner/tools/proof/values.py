"""What has to repeat in a run: every value that its ranks report which is no time and no measure of the machine.

Losses as exact hexadecimal numbers, hashes, counts, and the outcomes of what a program tries out. They are read from
the raw output, rank by rank, because a record keeps of most ranks only a summary.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.core.layout import Layout
from runner.core.text import shown
from runner.core.values import whole
from runner.records.events import Event, read_events
from runner.records.folder import RunFolder
from runner.records.schema import Record
from trainkit import files

MOST_VALUES = 2_000_000
_EXACT = ("_hex", "_sha256")
_FIELDS = ("correct", "samples", "trained_samples", "steps", "outcome", "before", "after")
_POINTS = ("parameters", "loss", "seed", "global_batch_size", "train_samples", "eval_samples", "eval_accuracy", "split")
_PROVES = ("parameters", "loss", "loss_hex", "after")
"""Values of which one has to be there: without a loss, a model or an outcome the others show nothing."""


@dataclass(frozen=True)
class Value:
    """A value, and where it stands: which epoch or batch, of which event and field."""

    place: str
    value: Any


@dataclass(frozen=True)
class Divergence:
    """The first value that differs: of which rank, where, and both."""

    rank: int
    place: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"rank {self.rank}, {self.place}: {shown(self.before, 80)} before, {shown(self.after, 80)} now"


def read_values(path: Path, record: Record) -> dict[int, list[Value]]:
    """Read the values of every rank of a run, in the order in which it reported them; OSError if one is not there."""
    found: dict[int, list[Value]] = {}
    steps: dict[int, int] = {}
    count = 0
    raw = RunFolder(path).raw_files(Layout.parse(record.launch.layout))
    for first, file_path in raw.printed():
        with files.open_file(file_path, below=path) as file:
            for events, _, _ in read_events(file):
                for event in events:
                    rank = whole(event.metadata.get("rank"), 0, 1_000_000)
                    own = first if rank is None else rank
                    values = _values_of(event, own, steps)
                    count += len(values)
                    if count <= MOST_VALUES:
                        found.setdefault(own, []).extend(values)
    return found


def proves(values: dict[int, list[Value]]) -> bool:
    """Whether a run reports anything that shows that it computed the same."""
    return any(one.place.rpartition(" ")[2] in _PROVES for own in values.values() for one in own)


def first_divergence(before: dict[int, list[Value]], after: dict[int, list[Value]]) -> Divergence | None:
    """Find the first value that differs: the earliest of any rank, and of equally early ones the lowest rank's."""
    found: list[tuple[int, Divergence]] = []
    for rank in sorted({*before, *after}):
        old, new = before.get(rank, []), after.get(rank, [])
        for at in range(max(len(old), len(new))):
            one = old[at] if at < len(old) else None
            other = new[at] if at < len(new) else None
            if one != other:
                place = (one or other or Value("", None)).place
                found.append((at, Divergence(rank, place, one and one.value, other and other.value)))
                break
    # A rank that reports less than another gets as far with fewer values: the share of its own counts.
    return min(found, key=lambda one: (_share(one, before, after), one[1].rank))[1] if found else None


def _share(one: tuple[int, Divergence], before: dict[int, list[Value]], after: dict[int, list[Value]]) -> float:
    rank = one[1].rank
    return one[0] / max(len(before.get(rank, [])), len(after.get(rank, [])), 1)


def _values_of(event: Event, rank: int, steps: dict[int, int]) -> list[Value]:
    fields = event.metadata
    place = _place(event, rank, steps)
    found = [
        Value(f"{place} {name}", value)
        for name, value in sorted(fields.items())
        if name in _FIELDS or name.endswith(_EXACT)
    ]
    # A loss is compared as its exact number where it has one, and the programs are inputs.
    if event.key in _POINTS and "loss_hex" not in fields:
        found.append(Value(place if place.endswith(event.key) else f"{place} {event.key}", event.value))
    return [one for one in found if event.key != "run_start"]


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
    named = f" {shown(event.value, 40)}" if event.key == "lesson" else ""
    return f"{event.key}{named}"
