"""Collect events into the fields of a record, in bounded memory except for load samples."""

import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import msgspec

from runner.core.layout import LARGEST_WORLD, Layout
from runner.core.text import one_line
from runner.core.values import number, whole
from runner.logs.mlperf import OBSERVED
from runner.records.events import Event
from runner.records.schema import Doubts, Load, Observed, RankFacts, Record, figure

MOST_POINTS = 300
"""Maximum points of a node's load. In longer runs, each point is a mean over several samples."""
_LOAD_FIGURE = re.compile(r"\w{1,60}_(percent|bytes|bytes_per_second|watts)")
_CLOCK_MS = 1_000
"""Largest backward step of a clock that is ignored."""
_CLOCK_SHARE = 0.01
"""Tolerated relative difference between durations by a host's and a rank's clock. Slewing causes at most 0.05%."""
_MOST_BYTES = 16_000_000
"""Maximum size of all kept fields as msgpack, so that the JSON record stays below `schema.LARGEST_RECORD`."""
_LARGEST = 10**12
_PHASES = ("setup", "data", "init", "warmup", "train", "eval")
_PLACE = ("rank", "seq", "node_rank")
_FACTS = ("seed", "global_batch_size", "train_samples", "eval_samples", "dataset", "repeat_with", "parameters")
_KEPT = {"run_start", "epoch_stop", "eval_accuracy", *_FACTS}
_TIME_USE = ("data_seconds", "compute_seconds", "communication_seconds", "straggler_seconds", "other_seconds")
_TIMES = (*_TIME_USE, "slowest_share", "cpu_share", "throttled_share")
_EPOCH = ("epoch_num", "samples", "samples_by_rank", "train_seconds", "time_by_rank", *_TIMES)


@dataclass
class _Rank:
    """One rank. Event times are in ms by the host's clock, and the rank itself measured `total_seconds`."""

    number: int
    kept: RankFacts
    first_start: float = math.inf
    last_stop: float = -math.inf
    latest: float = -math.inf
    total_seconds: float | None = None


@dataclass
class NodeLoad:
    """Load of one node. All samples stay in memory, which takes about 50 MB for a day."""

    looks: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    first: float = math.inf
    began: float = math.inf
    ended: float = -math.inf

    def take(self, event: Event) -> None:
        """Add a load sample, or note the time of the first event, or when epochs begin or end."""
        self.first = min(self.first, event.time_ms)
        if event.key == "load":
            figures = ((name, number(value)) for name, value in event.metadata.items() if _LOAD_FIGURE.fullmatch(name))
            self.looks.append((event.time_ms, {name: value for name, value in figures if value is not None}))
        elif event.key == "epoch_start":
            self.began = min(self.began, event.time_ms)
        elif event.key == "epoch_stop":
            self.ended = max(self.ended, event.time_ms)

    def summary(self, node: int) -> Load:
        """Return the load of a node.

        The `seconds` of a point are the time since the node's first event. Means cover the epochs. If there are no
        epochs, they cover the whole run.
        """
        looks = sorted(self.looks, key=itemgetter(0))
        # A sample covers the second before it.
        training = [look for look in looks if self.began < look[0] <= self.ended + 1000] or looks
        stretch = -(-len(looks) // MOST_POINTS)
        parts = [looks[start : start + stretch] for start in range(0, len(looks), stretch)]
        names = sorted({name for _, figures in looks for name in figures})
        during = {name: values for name in names if (values := _values(training, name))}
        points: dict[str, list[float | None]] = {
            "seconds": [round((part[-1][0] - self.first) / 1000, 1) for part in parts]
        }
        for name in names:
            points[name] = [_mean(values) if (values := _values(part, name)) else None for part in parts]
        means = {name: _mean(values) for name, values in during.items()}
        return Load(node, len(looks), means, {name: max(values) for name, values in during.items()}, points)


def _values(looks: list[tuple[float, dict[str, float]]], name: str) -> list[float]:
    return [figures[name] for _, figures in looks if name in figures]


def _mean(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return round(mean, 1 if mean < 1000 else None)  # bytes need no decimals


class RunEvents:
    """Collector of a run's events for the run's record."""

    def __init__(self, record: Record, layout: Layout, doubts: Doubts) -> None:
        self._record, self._layout, self._doubts = record, layout, doubts
        self._ranks: dict[int, _Rank] = {}
        self._metrics: dict[str, tuple[int, float]] = {}
        self._phases: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self._epochs: dict[int, dict[str, Any]] = {}
        self._evaluations: list[tuple[float, dict[str, Any]]] = []
        self._load: dict[int, NodeLoad] = defaultdict(NodeLoad)
        self._observed: dict[int, dict[int, Observed]] = defaultdict(dict)
        self._room = _MOST_BYTES
        self._takers: dict[str, Callable[[_Rank, Event], None]] = {
            "run_start": self._start,
            "run_stop": self._stop,
            "tracked_stats": self._stats,
            "epoch_stop": self._epoch,
            "eval_accuracy": self._evaluation,
            "link": self._link,
            **dict.fromkeys((f"{phase}_stop" for phase in _PHASES), self._phase),
            **dict.fromkeys(_FACTS, self._fact),
        }

    def take(self, event: Event, default_rank: int) -> None:
        """Add one event. If the event names no rank, it belongs to `default_rank`."""
        try:
            if event.key == OBSERVED:
                seen = msgspec.convert(event.metadata, Observed)
                if seen.process not in self._observed[seen.rank]:
                    self._make_room(event.metadata)
                self._observed[seen.rank][seen.process] = seen  # a process's later lines replace its earlier lines
            else:
                self._take(event, default_rank)
        except (ValueError, OverflowError, msgspec.MsgspecError) as error:
            self._doubt(event.metadata.get("rank", default_rank), f"{event.key}: {error}")

    def _doubt(self, rank: object, why: str) -> None:
        self._doubts[one_line(f"rank {rank}: {why}", 200)] = None

    def _take(self, event: Event, default_rank: int) -> None:
        number = whole(event.metadata.get("rank", default_rank), 0, LARGEST_WORLD - 1)
        if number is None:
            raise ValueError("left out: impossible rank")
        rank = self._ranks.get(number) or self._rank(number)
        if rank.latest == -math.inf or event.key in ("load", "epoch_start", "epoch_stop"):
            self._load[rank.kept.node].take(event)
        if event.time_ms < rank.latest - _CLOCK_MS:
            self._doubt(number, "its clock ran backwards")
        rank.latest = max(rank.latest, event.time_ms)
        self._count(rank.kept, whole(event.metadata.get("seq"), 0, _LARGEST))
        if taker := self._takers.get(event.key):
            if event.key in _KEPT:
                self._make_room([event.value, event.metadata])
            taker(rank, event)

    def _rank(self, number: int) -> _Rank:
        if number not in self._ranks:
            self._ranks[number] = _Rank(number, RankFacts(rank=number, node=self._layout.node_of(number)))
        return self._ranks[number]

    def _count(self, rank: RankFacts, seq: int | None) -> None:
        """Count an event. A rank numbers its events from 0 and prints them in order. A repeated number is a doubt."""
        expected = rank.events_expected or 0
        if seq is None:
            rank.events_seen += not expected
        elif seq < expected:
            self._doubt(rank.rank, "duplicate sequence number")
        else:
            rank.events_seen = rank.events_seen + 1 if expected else 1
            rank.events_expected = seq + 1

    def _make_room(self, value: Any) -> None:
        self._room -= len(msgspec.msgpack.encode(value))
        if self._room < 0:
            raise ValueError("left out: the record is full")

    def _figure(self, rank: _Rank, event: Event, name: str, value: object) -> float | None:
        try:
            return figure(name, value)
        except ValueError as error:
            self._doubt(rank.number, f"{event.key}: {error}")
            return None

    def finish(self) -> None:
        """Fill in the record, with the ranks of the layout and any other ranks that printed events."""
        record = self._record
        trained = (rank for rank, seen in self._observed.items() if any(one.steps for one in seen.values()))
        for rank in map(self._rank, sorted({*range(self._layout.world_size), *self._ranks, *trained})):
            if rank.first_start == math.inf:  # the program prints no events
                rank.kept.observed = _of_trainer([*self._observed[rank.number].values()])
            record.ranks.append(rank.kept)
        record.metrics = {name: value for name, (_, value) in self._metrics.items()}
        if (total := self._total()) is not None:
            record.metrics["total_seconds"] = total
        record.phases = {phase: max(self._phases[phase].values()) for phase in _PHASES if phase in self._phases}
        record.epochs = [self._epochs[number] for number in sorted(self._epochs)]
        record.evaluations = [fields for _, fields in sorted(self._evaluations, key=itemgetter(0))]
        record.load = [load.summary(node) for node, load in sorted(self._load.items()) if load.looks]

    def _total(self) -> float | None:
        """Return the time from the first run_start to the last run_stop.

        If the ranks are on several hosts, or if a host's clock was set, return the longest time that a rank measured.
        """
        started = [rank for rank in self._ranks.values() if rank.first_start < math.inf]
        stopped = [rank for rank in self._ranks.values() if rank.last_stop > -math.inf]
        one_clock = len({str(rank.kept.facts.get("host")) for rank in started}) == 1
        for rank in started:
            by_clock, measured = (rank.last_stop - rank.first_start) / 1_000, rank.total_seconds
            if measured is not None and abs(by_clock - measured) > max(_CLOCK_MS / 1_000, _CLOCK_SHARE * measured):
                one_clock = False
                self._doubt(rank.number, f"its clock was set: {by_clock:g} s by the clock, {measured:g} s measured")
        if stopped and one_clock:
            total = max(rank.last_stop for rank in stopped) - min(rank.first_start for rank in started)
            return total / 1000 if total >= 0 else None
        return max((rank.total_seconds for rank in stopped if rank.total_seconds is not None), default=None)

    def _start(self, rank: _Rank, event: Event) -> None:
        if rank.first_start < math.inf:
            self._doubt(rank.number, "more than one run_start")
        else:
            rank.kept.facts = _fields(event) | rank.kept.facts
        rank.first_start = min(rank.first_start, event.time_ms)

    def _stop(self, rank: _Rank, event: Event) -> None:
        kept, fields = rank.kept, event.metadata
        status, error = one_line(fields.get("status"), 100), fields.get("error")
        if rank.last_stop > -math.inf:
            self._doubt(rank.number, f"more than one run_stop: {kept.status}, then {status}")
        if event.time_ms < rank.first_start < math.inf:
            self._doubt(rank.number, "it stopped before it started")
        kept.status, kept.error = status, one_line(error, 500) if error else None
        rank.last_stop = max(rank.last_stop, event.time_ms)
        if (seconds := self._figure(rank, event, "total_seconds", fields.get("total_seconds"))) is not None:
            rank.total_seconds = max(rank.total_seconds or 0.0, seconds)

    def _link(self, rank: _Rank, event: Event) -> None:
        name = "bytes_per_second"
        to = whole(event.metadata.get("to"), 0, LARGEST_WORLD - 1)
        if to is not None and (speed := self._figure(rank, event, name, event.metadata.get(name))):
            rank.kept.facts["link"] = {"to": to, name: speed}

    def _stats(self, rank: _Rank, event: Event) -> None:
        """Keep the largest value of a time or size, and the lowest rank's value of any other figure.

        Ranks wait for each other before and after a measured time, so the slowest rank's time is the run's time.
        """
        for name, given in event.value.items() if isinstance(event.value, dict) else ():
            if (value := self._figure(rank, event, name, given)) is None:
                continue
            first, before = self._metrics.get(name, (rank.number, -math.inf))
            if name.endswith(("_seconds", "_bytes")):
                self._metrics[name] = rank.number, max(before, value)
            elif rank.number <= first:
                self._metrics[name] = rank.number, value

    def _phase(self, rank: _Rank, event: Event) -> None:
        if (seconds := self._figure(rank, event, "seconds", event.metadata.get("seconds"))) is not None:
            self._phases[event.key.removesuffix("_stop")][rank.number] += seconds

    def _epoch(self, rank: _Rank, event: Event) -> None:
        fields, who = event.metadata, rank.number
        epoch = whole(fields.get("epoch_num"), 0, _LARGEST)
        if epoch is None:
            return
        row = self._epochs.setdefault(epoch, {"epoch_num": epoch, "samples_by_rank": {}})
        if (seconds := self._figure(rank, event, "train_seconds", fields.get("train_seconds"))) is not None:
            row["train_seconds"] = max(row.get("train_seconds", 0.0), seconds)
        if who == 0:
            row.update({name: value for name, value in self._possible(rank, event).items() if name not in _EPOCH})
        row["samples_by_rank"][str(who)] = whole(fields.get("samples"))
        times = {name: number(fields.get(name), 0.0) for name in _TIMES}
        if all(times[name] is not None for name in _TIME_USE[1:]):  # every rank reports these
            times = {name: value for name, value in times.items() if value is not None}
            row.setdefault("time_by_rank", {})[str(who)] = times

    def _evaluation(self, rank: _Rank, event: Event) -> None:
        accuracy = self._figure(rank, event, "accuracy", event.value)
        self._evaluations.append((event.time_ms, {**_fields(event), "accuracy": accuracy}))

    def _fact(self, rank: _Rank, event: Event) -> None:
        if rank.number or (
            number(event.value) is not None and self._figure(rank, event, event.key, event.value) is None
        ):
            return
        self._record.facts["parameters_sha256" if event.key == "parameters" else event.key] = event.value
        self._record.facts |= _fields(event) if event.key == "dataset" else {}

    def _possible(self, rank: _Rank, event: Event) -> dict[str, Any]:
        fields = _fields(event)
        return {
            name: value
            for name, value in fields.items()
            if number(value) is None or self._figure(rank, event, name, value) is not None
        }


def _fields(event: Event) -> dict[str, Any]:
    return {key: value for key, value in event.metadata.items() if key not in _PLACE}


def _of_trainer(processes: list[Observed]) -> Observed | None:
    trained = [seen for seen in processes if seen.steps != 0]
    if len(trained) > 1:
        why = f"{len(trained)} processes of this rank trained"
        return Observed(process=trained[0].process, rank=trained[0].rank, unknown={"all": why})
    return next(iter(trained or processes), None)
