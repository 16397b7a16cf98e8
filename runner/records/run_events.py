"""Events -> what a record keeps of them, one event at a time; none is held, so that memory does not grow with them."""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from runner.core.layout import LARGEST_WORLD, Layout
from runner.core.text import one_line
from runner.core.values import number, plain, weight, whole
from runner.records.checks import Doubts, check_figure
from runner.records.events import Event
from runner.records.rank_events import RankEvents
from runner.records.schema import Load, Observed, RankFacts
from runner.records.utilization import NodeLoad

PHASES = ("setup", "data", "init", "warmup", "train", "eval")
MOST_EPOCHS = 10_000
MOST_METRICS = 256
MOST_FACTS = 64
MOST_PROCESSES = 1_000
MOST_BYTES = 150_000_000
"""Memory that the kept fields of all events may take, roughly."""
_LARGEST_EPOCH = 10**9
_SAMPLES = 150
_PLACE = ("rank", "seq", "node_rank")
_FACTS = ("seed", "global_batch_size", "train_samples", "eval_samples", "dataset", "repeat_with")
TIME_USE = ("data_seconds", "compute_seconds", "communication_seconds", "straggler_seconds", "other_seconds")
TIME_SHARES = ("slowest_share", "cpu_share", "throttled_share")
MOST_TIMES = 100_000
"""Of so many ranks and epochs, multiplied, it is kept where the time went."""
_EPOCH = ("epoch_num", "samples", "samples_by_rank", "train_seconds", "time_by_rank", *TIME_USE, *TIME_SHARES)
_FACT = re.compile(r"\w{1,100}")


class RunEvents:
    """What all events of a run come to."""

    def __init__(self, layout: Layout, doubts: Doubts) -> None:
        self.facts: dict[str, Any] = {}
        self.evaluations: list[tuple[float, dict[str, Any]]] = []
        self.malformed: list[str] = []
        self.broken = self.too_long = 0
        self._layout, self._doubts = layout, doubts
        self._ranks: dict[int, RankEvents] = {}
        self._metrics: dict[str, tuple[int, float]] = {}
        self._phases: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self._epochs: dict[int, dict[str, Any]] = {}
        self._load: dict[int, NodeLoad] = defaultdict(lambda: NodeLoad(layout.nodes))
        self._room = MOST_BYTES
        self._times = 0
        self._observed: dict[int, dict[int, Observed]] = defaultdict(dict)
        self._takers: dict[str, Callable[[RankEvents, Event], None]] = {
            "run_start": self._start,
            "run_stop": RankEvents.stop,
            "tracked_stats": self._stats,
            "epoch_start": self._mark,
            "epoch_stop": self._epoch,
            "eval_accuracy": self._evaluation,
            "parameters": self._fact,
            "load": lambda rank, event: self._load[rank.node].take(event),
            "link": RankEvents.link,
            **dict.fromkeys((f"{phase}_stop" for phase in PHASES), self._phase),
            **dict.fromkeys(_FACTS, self._fact),
        }

    def take(self, event: Event, default_rank: int) -> None:
        """Take in one event; one that does not say its rank is of the rank whose file it is in."""
        number = whole(event.metadata.get("rank", default_rank), 0, LARGEST_WORLD - 1)
        if number is None:
            self._doubts.add(f"an event of a rank that can be none is left out: {one_line(event.metadata['rank'], 40)}")
            return
        rank = self._ranks.get(number)
        if rank is None:
            rank = self._ranks[number] = RankEvents(number, self._layout.node_of(number), self._doubts)
            self._mark(rank, event)
        rank.take(event)
        taker = self._takers.get(event.key)
        if taker:
            taker(rank, event)

    def observe(self, event: Event) -> None:
        """Take in what was seen so far in one process; the last line of each counts."""
        try:
            seen = msgspec.convert(event.metadata, Observed)
        except msgspec.ValidationError as error:
            self._doubts.add(f"a line of the observer is left out: {one_line(error, 100)}")
            return
        processes = self._observed[seen.rank]
        if seen.process in processes or sum(map(len, self._observed.values())) < MOST_PROCESSES:
            processes[seen.process] = seen

    def ranks(self) -> list[RankFacts]:
        """Return what is known of each rank: those of the layout, and others that were heard of."""
        found = []
        trained = (rank for rank, seen in self._observed.items() if any(one.steps for one in seen.values()))
        for rank in sorted({*range(self._layout.world_size), *self._ranks, *trained}):
            events = self._ranks.get(rank)
            facts = events.facts_kept() if events else RankFacts(rank=rank, node=self._layout.node_of(rank))
            facts.observed = None if events and events.starts else _of_trainer(self._observed.get(rank, {}))
            found.append(facts)
        return found

    def metrics(self) -> dict[str, float]:
        """Merge what the ranks measured: the slowest rank's times, the largest one's bytes, else what rank 0 says.

        Durations come from each rank's monotonic clock with a barrier at both ends, so the slowest rank's is the run's.
        `total_seconds` is max(run_stop) - min(run_start) where all ranks read one clock that nobody set, the slowest
        rank's own elsewhere.
        """
        metrics = {name: value for name, (_, value) in self._metrics.items()}
        started = [rank for rank in self._ranks.values() if rank.starts]
        stopped = [rank for rank in self._ranks.values() if rank.stops]
        own = [rank.total_seconds for rank in stopped if rank.total_seconds is not None]
        has_one_clock = len({host for rank in started for host in rank.hosts}) == 1
        # Every rank is asked, so that each has its doubt.
        if started and stopped and has_one_clock and not sum(rank.clock_was_set() for rank in self._ranks.values()):
            milliseconds = max(rank.last_stop for rank in stopped) - min(rank.first_start for rank in started)
            total = check_figure("total_seconds", milliseconds / 1000, self._doubts)
            metrics.update({} if total is None else {"total_seconds": total})
        elif own:
            metrics["total_seconds"] = max(own)
        return metrics

    def phases(self) -> dict[str, float]:
        """Return each phase's seconds, summed for each rank; the slowest rank's is the run's."""
        return {phase: max(self._phases[phase].values()) for phase in PHASES if phase in self._phases}

    def epochs(self) -> list[dict[str, Any]]:
        """Return one row an epoch: what rank 0 says of all, the slowest rank's seconds, each rank's samples."""
        return [self._epochs[number] for number in sorted(self._epochs)]

    def load(self) -> list[Load]:
        """Return each node's load, of the nodes that reported one."""
        return [load for node in sorted(self._load) if (load := self._load[node].summary(node))]

    def _fields(self, event: Event) -> dict[str, Any]:
        """Return an event's own fields, checked, without those that say whose it is; none where there is no room."""
        fields: dict[str, Any] = plain({key: value for key, value in event.metadata.items() if key not in _PLACE}) or {}
        return fields if self._has_room(weight(fields)) else {}

    def _has_room(self, more: int) -> bool:
        self._room -= more
        if self._room < 0:
            self._doubts.add("more facts than a record holds: the further ones are left out")
        return self._room >= 0

    def _mark(self, rank: RankEvents, event: Event) -> None:
        self._load[rank.node].mark(event)

    def _start(self, rank: RankEvents, event: Event) -> None:
        self._mark(rank, event)
        rank.start(event, self._fields(event))

    def _stats(self, rank: RankEvents, event: Event) -> None:
        for name, value in event.value.items() if isinstance(event.value, dict) else ():
            found = check_figure(name, value, self._doubts, f"rank {rank.rank}: ")
            before = self._metrics.get(name)
            if found is None or (before is None and len(self._metrics) >= MOST_METRICS):
                continue
            if before is None:
                self._metrics[name] = rank.rank, found
            elif name.endswith(("_seconds", "_bytes")):
                self._metrics[name] = rank.rank, max(before[1], found)
            elif rank.rank <= before[0]:
                self._metrics[name] = rank.rank, found

    def _phase(self, rank: RankEvents, event: Event) -> None:
        found = check_figure("seconds", event.metadata.get("seconds"), self._doubts, f"rank {rank.rank}: {event.key}: ")
        if found is not None:
            self._phases[event.key.removesuffix("_stop")][rank.rank] += found

    def _epoch(self, rank: RankEvents, event: Event) -> None:
        self._mark(rank, event)
        number = whole(event.metadata.get("epoch_num"), 0, _LARGEST_EPOCH)
        if number is None:
            return
        if number not in self._epochs and len(self._epochs) >= MOST_EPOCHS:
            self._doubts.add(f"more than {MOST_EPOCHS:,} epochs: the further ones are not kept")
            return
        where = f"rank {rank.rank}: epoch {number}: "
        row = self._epochs.setdefault(number, {"epoch_num": number, "samples_by_rank": {}, "train_seconds": 0.0})
        seconds = check_figure("train_seconds", event.metadata.get("train_seconds"), self._doubts, where)
        slowest = max(row["train_seconds"], seconds or 0.0)
        if rank.rank == 0:
            row.update({name: value for name, value in self._fields(event).items() if name not in _EPOCH})
        row["train_seconds"] = slowest
        if self._has_room(_SAMPLES):
            row["samples_by_rank"][str(rank.rank)] = whole(event.metadata.get("samples"))
        if (times := _times(event)) and self._times < MOST_TIMES:
            self._times += 1
            row.setdefault("time_by_rank", {})[str(rank.rank)] = times

    def _evaluation(self, rank: RankEvents, event: Event) -> None:
        accuracy = check_figure("accuracy", event.value, self._doubts, f"rank {rank.rank}: ")
        if len(self.evaluations) < MOST_EPOCHS:
            self.evaluations.append((event.time_ms, {"accuracy": accuracy, **self._fields(event)}))

    def _fact(self, rank: RankEvents, event: Event) -> None:
        """Keep what rank 0 says once about the data and the work."""
        if rank.rank or len(self.facts) > MOST_FACTS:
            return
        value = plain(event.value)
        if self._has_room(weight(value)):
            self.facts["parameters_sha256" if event.key == "parameters" else event.key] = value
        if event.key == "dataset":
            self.facts.update({key: value for key, value in self._fields(event).items() if _FACT.fullmatch(key)})


def _of_trainer(processes: dict[int, Observed]) -> Observed | None:
    """Return what was seen in the process of a rank that trained; which of several did cannot be told."""
    trained = [seen for seen in processes.values() if seen.steps != 0]
    if len(trained) > 1:
        first = trained[0]
        why = f"{len(trained)} processes of this rank trained"
        return Observed(process=first.process, rank=first.rank, unknown={"all": why})
    return next(iter(trained or processes.values()), None)


def _times(event: Event) -> dict[str, float]:
    """Return where a rank's seconds of an epoch went; nothing if a part that all ranks report is missing or none."""
    found = {name: number(event.metadata.get(name), 0.0) for name in (*TIME_USE, *TIME_SHARES)}
    if any(found[name] is None for name in TIME_USE[1:]):
        return {}
    return {name: value for name, value in found.items() if value is not None}
