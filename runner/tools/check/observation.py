"""What was seen of a run: the passes over loaders, evaluations, steps and collectives of each rank."""

import json
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress, pairwise
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Place = list[list[Any]]
"""Lines of the program that lead to a call, the innermost first: [file, line, function]."""
WHOLE_PASSES = 3
"""Passes over a loader that are looked at; the observer makes the further ones short."""


@dataclass
class Pass:
    """One iteration over a loader, or one epoch of a loop that takes its samples by hand.

    `length` is how many batches its loader says it has. `samples` has (index, content) of each sample in order; one of
    them may be unknown. `is_whole` says whether they are all that the pass would have had. `is_used` says of each batch
    whether a forward pass came before the next batch, and `again` how many more came. `parts` has the rows of each
    batch that entered the model, where they were fewer;
    None if they cannot be told, and then `is_cut_up`.
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
    samples: list[tuple[Hashable, Hashable]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    is_used: list[bool] = field(default_factory=list)
    parts: list[set[int] | None] = field(default_factory=list)
    fed: list[int] = field(default_factory=list)
    is_cut_up: bool = False
    trains: bool = False
    is_whole: bool = True
    is_broken: bool = True
    again: int = 0
    is_skipped: bool = False
    shuffles: bool = False
    number: int = -1

    def feed(self, event: Event) -> None:
        """Take in a training forward pass behind the last batch."""
        self.again += self.is_used[-1]
        self.is_used[-1] = True
        if event["run"] == self.number and event["rows"] < self.batches[-1]:
            part = self.parts[-1]
            taken = event["taken"]
            self.parts[-1] = None if part is None or taken is None else part | set(taken)
        self.fed[-1] += event["rows"]

    def leave_out_cut_off(self) -> None:
        """Leave out the rows of each batch that entered no model: some programs cut the part of a rank out of each."""
        samples, at, sizes = list[tuple[Hashable, Hashable]](), 0, []
        for number, part, fed in zip(self.batches, self.parts, self.fed, strict=True):
            batch = self.samples[at : at + number]
            at += number
            self.is_cut_up |= part is None and fed < number
            samples += [batch[place] for place in sorted(part) if place < number] if part else batch
            sizes.append(len(part) if part else number)
        if sizes != self.batches:
            self.samples, self.batches, self.is_skipped = samples, sizes, True

    def leave_out_skipped(self) -> None:
        """Leave out the batches that the program passed over: some give every rank all, of which it trains on its own.

        One that fetches batches ahead has as many forward passes as batches, several one after another.
        """
        if self.again or not 1 < sum(self.is_used) < len(self.batches) - 1:
            return
        used = [is_used for is_used, number in zip(self.is_used, self.batches, strict=True) for _ in range(number)]
        self.samples = [*compress(self.samples, used)]
        self.batches = [*compress(self.batches, self.is_used)]
        self.is_skipped = True


@dataclass
class Evaluation:
    """What one rank evaluated between two training steps, and what it did with it.

    `counted` has the samples of its figure by how that was seen, `once` those that every rank counts for all.
    `reads_back` says whether it read a file that a rank had written, before it printed: figures may be joined so.
    """

    key: str
    place: Place
    step: int
    samples: list[tuple[Hashable, Hashable]] = field(default_factory=list)
    of_loader: Pass | None = None
    counted: Counter[str] = field(default_factory=Counter)
    once: Counter[str] = field(default_factory=Counter)
    collectives: list[Event] = field(default_factory=list)
    prints: list[Event] = field(default_factory=list)
    is_whole: bool = True
    reads_back: bool = False

    def take(self, event: Event) -> None:
        """Take in what follows upon a forward pass, as far as it belongs to an evaluation."""
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
        """How many samples the figure counts; None if that was not seen."""
        return max(self.counted.values(), default=None)

    def goes_on(self, earlier: "Evaluation") -> bool:
        """Return whether it is of the same data set at the same step as an earlier one."""
        ours, theirs = self.of_loader, earlier.of_loader
        return self.step == earlier.step and bool(ours and theirs and ours.base == theirs.base)


@dataclass
class Rank:
    """The events of one process."""

    rank: int
    world: int
    events: list[Event]

    def of(self, kind: str) -> Iterator[Event]:
        """Yield the events of a kind."""
        return (event for event in self.events if event["kind"] == kind)

    def first(self, kind: str) -> Event | None:
        """Return the first event of a kind."""
        return next(self.of(kind), None)

    @cached_property
    def steps(self) -> dict[tuple[int, int], Event]:
        """The optimizers' steps by (step, optimizer)."""
        return {(event["step"], event["optimizer"]): event for event in self.of("step")}

    @cached_property
    def restarts(self) -> list[int]:
        """The steps before which the weights were those of the start again, as behind a rehearsal."""
        weights = {step: event["weights"] for (step, optimizer), event in self.steps.items() if optimizer == 0}
        start = weights.get(0)
        known = weights.items() if start is not None else ()
        return [step for step, value in known if step > 1 and value == start != weights.get(step - 1)]

    @cached_property
    def loaders(self) -> list[Pass]:
        """The passes over loaders."""
        passes: dict[int, Pass] = {}
        current: int | None = None
        over = set[int]()  # passes behind whose end another one has begun: no forward pass is theirs
        for event in self.events:
            kind = event["kind"]
            if kind == "pass":
                over |= {number for number, found in passes.items() if not found.is_broken}
                known = ("key", "place", "loader", "sampler", "sampler_place", "size", "base", "shuffles", "number")
                told = {name: event[name] for name in known}
                told |= {"length": event["batches"], "workers": event["workers"]}
                passes[event["number"]] = Pass(**told, first_step=event["step"])
            elif kind == "batch":
                current = event["run"]
                found = passes[current]
                number = event["rows"]
                indices = event["indices"] or [None] * number
                found.samples += zip(indices, event["hashes"] or [None] * len(indices), strict=False)
                found.batches.append(len(indices))
                found.is_used.append(False)
                found.parts.append(set())
                found.fed.append(0)
            elif kind == "forward" and event["train"]:
                last = {found.key: found for found in passes.values() if found.is_used and found.number not in over}
                for found in last.values():
                    found.feed(event)
            elif kind == "pass_end":
                found = passes[event["number"]]
                found.is_broken = False
                found.leave_out_cut_off()
                found.leave_out_skipped()
                is_empty = event["cut"] and not event["rest"] and not found.batches
                if event["rest"] is None or is_empty or (found.is_skipped and event["rest"]):
                    found.is_whole = False
                else:
                    found.samples += [(index, None) for index in event["rest"]]
                current = None
            elif kind == "step" and current is not None:
                passes[current].trains = True
        for broken in (found for found in passes.values() if found.is_broken):
            broken.leave_out_cut_off()
        return [found for found in passes.values() if found.samples]

    @cached_property
    def by_hand(self) -> list[Pass]:
        """The epochs of a training that takes its samples without a loader."""
        began = max(self.restarts, default=0)
        forwards = (event for event in self.of("forward") if event["train"] and event["run"] is None)
        seen = [event for event in forwards if event["hashes"] and event["step"] >= began]
        epochs: dict[Any, Pass] = {}
        counter = _epoch_counter(seen)
        for event in seen:
            key = event["loops"].get(counter) if counter else 0
            new = Pass("by hand", event["place"], event["place"], first_step=event["step"], trains=True)
            found = epochs.setdefault(key, new)
            found.is_broken = False
            found.samples += [(None, number) for number in event["hashes"]]
            found.batches.append(event["rows"])
        passes = list(epochs.values())
        if passes and any(self.of("cut")):
            passes[-1].is_whole = False
        return passes

    @cached_property
    def trainings(self) -> list[Pass]:
        """The passes that train, of the loader that brings most samples, or by hand."""
        amounts: Counter[str] = Counter()
        for found in self.loaders:
            if found.trains:
                amounts[found.key] += len(found.samples)
        if not amounts:
            return self.by_hand[:WHOLE_PASSES]
        key = amounts.most_common(1)[0][0]
        return [found for found in self.loaders if found.trains and found.key == key][:WHOLE_PASSES]

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        """What was evaluated, in order."""
        passes = {event["number"]: event for event in self.of("pass")}
        trains = {number for number in passes if self._is_training(number)}
        found: list[Evaluation] = []
        current: Evaluation | None = None
        waiting: dict[int, list[tuple[Hashable, Hashable]]] = {}
        cut = {event["number"] for event in self.of("pass_end") if event["cut"]}
        for event in self.events:
            kind = event["kind"]
            if kind == "batch" and event["run"] not in trains:
                indices = event["indices"] or [None] * event["rows"]
                hashes = event["hashes"] or [None] * len(indices)
                waiting.setdefault(event["run"], []).extend(zip(indices, hashes, strict=False))
            elif kind == "forward" and not event["train"] and event["run"] not in trains:
                source = passes.get(event["run"])
                key = source["key"] if source else "by hand"
                # A loader that takes a batch ahead has ended before its last batch is evaluated.
                is_last = source is None and current is not None and event["place"] == current.place
                if current is None or event["step"] != current.step or (current.key != key and not is_last):
                    current = Evaluation(key, event["place"], event["step"])
                    found.append(current)
                if source:
                    current.samples += waiting.pop(event["run"], [])
                    current.of_loader = next((p for p in self.loaders if p.number == event["run"]), None)
                    current.is_whole = event["run"] not in cut
                elif current.key == key:
                    current.samples += [(None, number) for number in event["hashes"]]
            elif kind == "forward" and event["train"]:
                current = None
            elif current is not None:
                current.take(event)
        return found

    def _is_training(self, number: int) -> bool:
        inside = False
        for event in self.events:
            if event["kind"] == "batch":
                inside = event["run"] == number
            elif event["kind"] == "pass_end" and event["number"] == number:
                return bool(event["trains"])
            elif event["kind"] == "step" and inside:
                return True
        return False


def _epoch_counter(events: list[Event]) -> str | None:
    """Return the counter that goes up by one after so many batches each, with the fewest values."""
    best: tuple[int, str] | None = None
    names = set.intersection(*(set(event["loops"]) for event in events)) if events else set()
    for name in sorted(names):
        values = [event["loops"][name] for event in events]
        rises = {after - before for before, after in pairwise(values)}
        *whole, last = Counter(values).values()  # in the order in which they came
        if rises == {0, 1} and len(set(whole)) == 1 and last <= whole[0] and (best is None or len(whole) < best[0]):
            best = len(whole), name
    return best[1] if best else None


def read(folder: Path) -> list[Rank]:
    """Read what the processes of a run have written: one for each rank, those that trained."""
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
