"""The events of a run: passes over loaders, evaluations, steps and collectives of each rank."""

import json
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Place = list[list[Any]]
"""The program's stack at a call, innermost frame first: [file, line, function]."""
_OF_PASS = ("key", "place", "loader", "sampler", "sampler_place", "size", "base", "shuffles", "workers", "number")
WHOLE_PASSES = 3
"""Number of passes over a loader that are compared. The observer shortens later passes."""


Sample = tuple[Hashable, Hashable]
"""A sample's index in the data set, and a hash of its content. The index or the hash may be None."""


@dataclass
class Batch:
    """A batch of a loader.

    `uses` counts the training forward passes before the next batch. `fed` counts the rows of these passes. `part` lists
    the rows that entered the model. It is empty if all rows entered, and None if unknown.
    """

    samples: list[Sample]
    uses: int = 0
    fed: int = 0
    part: set[int] | None = field(default_factory=set)


@dataclass
class Pass:
    """One iteration over a loader, or one epoch of a training loop without a loader.

    `length` is the loader's number of batches. `rest` lists the samples that were not fetched. If `is_whole`, `samples`
    is complete. If `is_cut_up`, the rows that entered the model are unknown. If `is_skipped`, some rows entered no
    model. If `is_broken`, the end of the pass was not seen.
    """

    key: str
    place: Place
    loader: Place
    sampler: str = ""
    sampler_place: Place = field(default_factory=list)
    size: int | None = None
    base: int = -1
    length: int | None = None
    workers: int = 0
    first_step: int = 0
    batches: list[Batch] = field(default_factory=list)
    rest: list[Sample] = field(default_factory=list)
    is_cut_up: bool = False
    trains: bool = False
    is_whole: bool = True
    is_broken: bool = True
    is_skipped: bool = False
    shuffles: bool = False
    number: int = -1

    @property
    def samples(self) -> list[Sample]:
        """The samples of the pass, in order."""
        return [sample for batch in self.batches for sample in batch.samples] + self.rest

    @property
    def batch_size(self) -> int:
        """The number of samples in the first batch."""
        return len(self.batches[0].samples)

    @property
    def again(self) -> bool:
        """Whether batches are fetched ahead: several forward passes follow one batch."""
        return any(batch.uses > 1 for batch in self.batches)

    def feed(self, event: Event) -> None:
        """Add a training forward pass on the last batch."""
        batch = self.batches[-1]
        batch.uses += 1
        batch.fed += event["rows"]
        if event["run"] == self.number and event["rows"] < len(batch.samples):
            taken = event["taken"]
            batch.part = None if batch.part is None or taken is None else batch.part | set(taken)

    def leave_out_cut_off(self) -> None:
        """Drop the rows that entered no model. In some programs, a rank trains on a slice of each batch."""
        for batch in self.batches:
            self.is_cut_up |= batch.part is None and batch.fed < len(batch.samples)
            if batch.part and len(batch.part) < len(batch.samples):
                batch.samples = [batch.samples[place] for place in sorted(batch.part) if place < len(batch.samples)]
                self.is_skipped = True

    def end(self, event: Event) -> None:
        """End the pass. Drop skipped batches, since in some programs every rank loads the batches of all ranks."""
        self.is_broken = False
        self.leave_out_cut_off()
        used = [batch for batch in self.batches if batch.uses]
        if 1 < len(used) < len(self.batches) - 1 and not self.again:
            self.batches, self.is_skipped = used, True
        is_empty = event["cut"] and not event["rest"] and not self.batches
        if event["rest"] is None or is_empty or (self.is_skipped and event["rest"]):
            self.is_whole = False
        else:
            self.rest = [(index, None) for index in event["rest"]]


@dataclass
class Evaluation:
    """One rank's evaluation between two training steps.

    `counted` has the number of samples in the figure, for each way of counting, such as `loss`. `once` has the same for
    samples that every rank counts. If `reads_back`, the rank read another rank's file before printing, perhaps to
    combine figures.
    """

    key: str
    place: Place
    step: int
    samples: list[Sample] = field(default_factory=list)
    of_loader: Pass | None = None
    counted: Counter[str] = field(default_factory=Counter)
    once: Counter[str] = field(default_factory=Counter)
    collectives: list[Event] = field(default_factory=list)
    prints: list[Event] = field(default_factory=list)
    is_whole: bool = True
    reads_back: bool = False

    def take(self, event: Event) -> None:
        """Add an event that follows a forward pass. Events that do not matter to an evaluation are ignored."""
        if event["kind"] == "counted":
            self.counted[event["how"]] += event["rows"]
        elif event["kind"] == "collective" and event["name"] not in ("barrier", "broadcast"):
            self.collectives.append(event)
        elif event["kind"] == "read_back":
            self.reads_back |= not self.prints
        elif event["kind"] == "print":
            self.prints.append(event)

    @property
    def rows(self) -> int | None:
        """The number of samples in the figure, or None if unknown."""
        return max(self.counted.values(), default=None)

    def goes_on(self, earlier: "Evaluation") -> bool:
        """Return whether this evaluation continues an earlier one, on the same data set and at the same step."""
        ours, theirs = self.of_loader, earlier.of_loader
        return self.step == earlier.step and bool(ours and theirs and ours.base == theirs.base)


@dataclass
class Rank:
    """The events of one process."""

    rank: int
    world: int
    events: list[Event]

    def of(self, kind: str) -> Iterator[Event]:
        """Return an iterator over the events of a kind."""
        return (event for event in self.events if event["kind"] == kind)

    def first(self, kind: str) -> Event | None:
        """Return the first event of a kind, or None."""
        return next(self.of(kind), None)

    @cached_property
    def steps(self) -> dict[tuple[int, int], Event]:
        """The step events by (step, optimizer)."""
        return {(event["step"], event["optimizer"]): event for event in self.of("step")}

    @cached_property
    def restarts(self) -> list[int]:
        """The steps at which training begins again from the initial weights, as after a trial run."""
        weights = {step: event["weights"] for (step, optimizer), event in self.steps.items() if optimizer == 0}
        start = weights.get(0)
        again = [step for step, value in weights.items() if step > 1 and value == start != weights.get(step - 1)]
        return again if start is not None else []

    @cached_property
    def loaders(self) -> list[Pass]:
        """The passes over loaders."""
        passes: dict[int, Pass] = {}
        current: int | None = None
        over = set[int]()  # passes that had ended when another began: forward passes no longer use them
        for event in self.events:
            kind = event["kind"]
            if kind == "pass":
                over |= {number for number, earlier in passes.items() if not earlier.is_broken}
                told = {name: event[name] for name in _OF_PASS}
                passes[event["number"]] = Pass(**told, length=event["batches"], first_step=event["step"])
            elif kind == "batch":
                current = event["run"]
                passes[current].batches.append(Batch(_samples(event)))
            elif kind == "forward" and event["train"]:
                last = {each.key: each for each in passes.values() if each.batches and each.number not in over}
                for each in last.values():
                    each.feed(event)
            elif kind == "pass_end":
                passes[event["number"]].end(event)
                current = None
            elif kind == "step" and current is not None:
                passes[current].trains = True
        for each in passes.values():
            if each.is_broken:
                each.leave_out_cut_off()
        return [each for each in passes.values() if each.samples]

    @cached_property
    def by_hand(self) -> list[Pass]:
        """The epochs of a training without a loader."""
        began = max(self.restarts, default=0)
        forwards = (event for event in self.of("forward") if event["train"] and event["run"] is None)
        seen = [event for event in forwards if event["hashes"] and event["step"] >= began]
        epochs: dict[Any, Pass] = {}
        counter = _epoch_counter(seen)
        for event in seen:
            key = event["loops"].get(counter) if counter else 0
            new = Pass(
                "by hand", event["place"], event["place"], first_step=event["step"], trains=True, is_broken=False
            )
            epochs.setdefault(key, new).batches.append(Batch([(None, number) for number in event["hashes"]]))
        passes = list(epochs.values())
        if passes and any(self.of("cut")):
            passes[-1].is_whole = False
        return passes

    @cached_property
    def trainings(self) -> list[Pass]:
        """The first training passes of the loader with the most samples. Without a loader, the first epochs."""
        amounts: Counter[str] = Counter()
        for each in self.loaders:
            amounts[each.key] += len(each.samples) if each.trains else 0
        (key, most), *_ = amounts.most_common(1) or [("", 0)]
        of_loader = [each for each in self.loaders if each.trains and each.key == key]
        return (of_loader if most else self.by_hand)[:WHOLE_PASSES]

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        """The evaluations, in order."""
        keys = {event["number"]: event["key"] for event in self.of("pass")}
        loaders = {each.number: each for each in self.loaders}
        trains = {each.number for each in self.loaders if each.trains}
        trains |= {event["number"] for event in self.of("pass_end") if event["trains"]}
        cut = {event["number"] for event in self.of("pass_end") if event["cut"]}
        evaluations: list[Evaluation] = []
        current: Evaluation | None = None
        waiting: dict[int, list[Sample]] = {}
        for event in self.events:
            kind, run = event["kind"], event.get("run")
            if kind == "batch" and run not in trains:
                waiting.setdefault(event["run"], []).extend(_samples(event))
            elif kind == "forward" and not event["train"] and run not in trains:
                key = keys.get(event["run"], "by hand")
                # A loader that fetches ahead ends before its last batch is evaluated.
                is_last = run not in keys and current is not None and event["place"] == current.place
                if current is None or event["step"] != current.step or (current.key != key and not is_last):
                    current = Evaluation(key, event["place"], event["step"])
                    evaluations.append(current)
                if run in keys:
                    current.samples += waiting.pop(event["run"], [])
                    current.of_loader = loaders.get(event["run"])
                    current.is_whole = run not in cut
                elif current.key == key:
                    current.samples += [(None, number) for number in event["hashes"]]
            elif kind == "forward" and event["train"]:
                current = None
            elif current is not None:
                current.take(event)
        return evaluations


def _samples(event: Event) -> list[Sample]:
    indices = event["indices"] or [None] * event["rows"]
    return [*zip(indices, event["hashes"] or [None] * len(indices), strict=False)]


def _epoch_counter(events: list[Event]) -> str | None:
    """Return the variable that counts epochs. It rises by one after equally many batches.

    If several variables do so, return the one with the fewest values.
    """
    best: tuple[int, str] | None = None
    names = set.intersection(*(set(event["loops"]) for event in events)) if events else set()
    for name in sorted(names):
        values = [event["loops"][name] for event in events]
        rises = {after - before for before, after in pairwise(values)}
        *whole, last = Counter(values).values()  # in order of appearance
        if rises == {0, 1} and len(set(whole)) == 1 and last <= whole[0] and (best is None or len(whole) < best[0]):
            best = len(whole), name
    return best[1] if best else None


def read(folder: Path) -> list[Rank]:
    """Read the event files of a run; return the ranks that trained."""
    ranks: dict[int, Rank] = {}
    for path in sorted(folder.glob("*.jsonl")):
        events: list[Event] = []
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                try:
                    events.append(json.loads(line))
                except ValueError:  # the last line of a process that was killed
                    break
        named = [event for event in events if event["kind"] == "rank"]
        trained = any(event["kind"] in ("step", "forward", "batch") for event in events)
        if not named or not trained:
            continue
        rank = Rank(named[-1]["rank"], named[-1]["world"], events)
        if rank.rank not in ranks or len(events) > len(ranks[rank.rank].events):
            ranks[rank.rank] = rank
    return [ranks[number] for number in sorted(ranks)]
