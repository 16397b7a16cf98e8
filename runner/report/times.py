"""Read from a record how each rank spent each epoch, and what disturbed the run."""

import statistics
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from runner.records.schema import Load, Observed, RankFacts, Record

PARTS = ("data", "compute", "communication", "straggler", "other")
"""The parts of an epoch's time in records. `compute` includes `data` if the program does not mark waits for data."""
SHOWN = ("data", "compute", "core", "communication", "straggler", "other")
"""The parts of an epoch's time as shown to users: waiting for a core is separate from computing."""
DATA, COMPUTE = ("data",), ("compute", "other")
LEAST_WITHOUT_CORE = 0.05
"""Waiting for a core is shown from this share of an epoch: a smaller share may be CPU time of other parts."""
MOST_PERCENT = 5.0
"""Disturbances up to this percentage of the machine or the time are ignored. They slow a run by up to 5%, the smallest
difference that most comparisons ask for."""
QUIET_CORES = 0.15
"""Other processes that use fewer cores are ignored. On two cores, the system and the runner used 0.05 to 0.08 cores.
Other processes on 0.4 cores made two processes take 28% longer."""
IDLE_CORES = 1.0
"""While a whole core is idle, no process of the run waits for a core, whatever other processes use."""
_SWAPPED = "swapped_bytes_per_second"
MOST_SWAPPED = 1_000_000.0
"""Fewer swapped bytes per second are ignored: 250 pages, at about 0.1 ms of disk time each, take 2.5% of the time."""


class Link(NamedTuple):
    """The measured speed from one rank to another."""

    source: int
    target: int
    bytes_per_second: float


@dataclass
class RankTimes:
    """A rank and its times. `epochs` has the seconds of each epoch's parts, and some shares.

    `cpu_share` is the CPU time, divided by the epoch's time. `throttled_share` is the time for which a CPU quota
    throttled the rank, also divided by the epoch's time. `slowest_share` is the share of the epoch's steps in which no
    rank was slower.
    """

    rank: int
    node: int
    host: str
    machine: object
    device: str
    epochs: list[dict[str, float]]
    knows_exchange: bool = True

    @cached_property
    def seconds(self) -> list[float]:
        """The seconds of each epoch. An epoch without steps gets 1, because shares are divided by these seconds."""
        return [seconds or 1.0 for seconds in self.seconds_of(*PARTS)]

    @property
    def name(self) -> str:
        """The rank with its node and host, for example `rank 1 (node 0, gpu-host)`."""
        return f"rank {self.rank} (node {self.node}{f', {self.host}' if self.host else ''})"

    def seconds_of(self, *parts: str) -> list[float]:
        """Return the sum of the seconds of some parts for each epoch."""
        return [sum(epoch.get(f"{part}_seconds", 0.0) for part in parts) for epoch in self.epochs]

    def mean(self, *parts: str) -> float:
        """Return the share of an epoch that some parts take together, averaged over epochs."""
        each = zip(self.seconds_of(*parts), self.seconds, strict=True)
        return statistics.fmean(own / whole for own, whole in each)

    def reported(self, name: str) -> list[float]:
        """Return the values of a share such as `cpu_share` from the epochs that report a value."""
        return [epoch[name] for epoch in self.epochs if name in epoch]

    def mean_reported(self, name: str) -> float | None:
        """Return the mean of a share over the epochs that report a value; None if no epoch reports one."""
        told = self.reported(name)
        return statistics.fmean(told) if told else None

    def shown(self) -> dict[str, float]:
        """Return the mean share of each part of `SHOWN`.

        If the device is the CPU, and a process computes for longer than its CPU time, the excess counts as waiting for
        a core. The wait may have been longer, because the other parts of an epoch use CPU time too.
        """
        shares = {part: self.mean(part) for part in PARTS}
        cpu, waited = self.reported("cpu_share"), 0.0
        if len(cpu) == len(self.epochs) and self.device == "cpu":
            waited = shares["compute"] - statistics.fmean(cpu)
        shares["core"] = waited if waited >= LEAST_WITHOUT_CORE else 0.0
        shares["compute"] -= shares["core"]
        return {part: shares[part] for part in SHOWN}


@dataclass(frozen=True)
class Times:
    """The times of all ranks of a run over the same stretch of the training, and the links between ranks.

    `stretch` describes this stretch in words: a number of epochs, or the steps of a script after the warm-up.
    """

    ranks: list[RankTimes]
    links: list[Link]
    stretch: str

    @property
    def knows_exchange(self) -> bool:
        """Whether the time of exchanges between ranks was measured separately from computing."""
        return all(rank.knows_exchange for rank in self.ranks)

    def mean(self, *parts: str) -> float:
        """Return the share of an epoch that some parts take together, averaged over ranks and epochs."""
        return statistics.fmean(rank.mean(*parts) for rank in self.ranks)

    def shown(self) -> dict[str, float]:
        """Return the mean share of each part of `SHOWN` over ranks and epochs."""
        each = [rank.shown() for rank in self.ranks]
        return {part: statistics.fmean(shares[part] for shares in each) for part in SHOWN}


def times_of(record: Record) -> Times | None:
    """Return how each rank spent its time, by epochs, or as observed in a script. Returns None if a rank has none."""
    told = [row["time_by_rank"] for row in record.epochs if "time_by_rank" in row]
    told = [by_rank for by_rank in told if len(by_rank) == len(record.ranks)]
    if not told:
        return _of_script(record)
    known = {rank.rank for rank in record.ranks}
    links = [(rank.rank, rank.facts["link"]) for rank in record.ranks if "link" in rank.facts]
    return Times(
        [_rank(rank, [by_rank[str(rank.rank)] for by_rank in told]) for rank in record.ranks],
        [Link(rank, link["to"], link["bytes_per_second"]) for rank, link in links if link["to"] in known - {rank}],
        f"{len(told):,} {'epoch' if len(told) == 1 else 'epochs'}",
    )


def _of_script(record: Record) -> Times | None:
    """Return the times observed in a script's processes. Returns None unless all processes were observed.

    The rank with the shortest exchange is assumed not to wait. In the exchange of any other rank, the time beyond the
    shortest exchange counts as waiting. If any exchange was not timed, exchanging counts as computing.
    """
    seen = [rank.observed for rank in record.ranks if rank.observed and rank.observed.seconds_after_warmup]
    if not seen or len(seen) < len(record.ranks):
        return None
    exchanges = [_exchange(one) for one in seen] if len(seen) > 1 else [0.0]
    known = [seconds for seconds in exchanges if seconds is not None]
    ranks = []
    for rank, one, exchange in zip(record.ranks, seen, exchanges, strict=True):
        parts = {"data": one.data_seconds_after_warmup or 0.0}
        if exchange is not None and len(known) == len(seen):
            parts |= {"communication": min(known), "straggler": exchange - min(known)}
        parts["compute"] = max(0.0, (one.seconds_after_warmup or 0.0) - sum(parts.values()))
        epoch = {f"{part}_seconds": seconds for part, seconds in parts.items()}
        ranks.append(_rank(rank, [epoch], knows_exchange="communication" in parts))
    steps = max((one.steps or 0) - (one.warmup_steps or 0) for one in seen)
    return Times(ranks, [], f"{steps:,} steps after the warm-up")


def _exchange(seen: Observed) -> float | None:
    """Return the seconds of exchanges. Returns None if exchanges were not timed.

    The seconds are extrapolated from backward passes that DDP timed, or else measured in collectives.
    """
    if seen.exchange_seconds_a_backward is None or seen.accumulation != 1:
        return seen.collective_seconds_after_warmup
    return seen.exchange_seconds_a_backward * ((seen.steps or 0) - (seen.warmup_steps or 0))


def _rank(rank: RankFacts, epochs: list[dict[str, float]], *, knows_exchange: bool = True) -> RankTimes:
    facts = rank.facts
    machine, device = facts.get("machine") or rank.node, facts.get("device") or "cpu"
    return RankTimes(rank.rank, rank.node, facts.get("host") or "", machine, device, epochs, knows_exchange)


def disturbances(record: Record) -> list[str]:
    """Return the disturbances that the reported load of a run's nodes shows, with figures."""
    return [what for _, found in _by_machine(record) for what in found]


def is_load_known(record: Record) -> bool:
    """Return whether each node of a run reported its machine's CPU load, and the run's part of this load."""
    facts, told = _facts(record), {"cpu_percent", "own_cpu_percent"}
    reported = {load.node for load in record.load if facts[load.node].get("machine_cores") and told <= load.mean.keys()}
    return bool(reported) and reported >= {rank.node for rank in record.ranks}


def disturbances_of_nodes(record: Record) -> dict[int, list[str]]:
    """Return the disturbances of each node's machine."""
    return {load.node: found for loads, found in _by_machine(record) for load in loads}


def _facts(record: Record) -> dict[int, dict[str, Any]]:
    return defaultdict(dict, {rank.node: rank.facts for rank in reversed(record.ranks)})


def _by_machine(record: Record) -> list[tuple[list[Load], list[str]]]:
    facts, machines = _facts(record), defaultdict(list)
    for load in record.load:
        machines[facts[load.node].get("machine") or load.node].append(load)
    found = []
    for loads in machines.values():
        cores = facts[loads[0].node].get("machine_cores")
        found.append((loads, [*_others([load.mean for load in loads], cores), *_hindered(loads)]))
    return found


def _others(means: list[dict[str, float]], cores: int | None) -> list[str]:
    ours = [mean["own_cpu_percent"] for mean in means if "own_cpu_percent" in mean]
    used = [mean["cpu_percent"] for mean in means if "cpu_percent" in mean]
    if not cores or not used or len(ours) < len(means):
        return []
    total = sum(used) / len(used)
    interrupts = sum(mean.get("interrupts_percent", 0.0) for mean in means) / len(means)
    others = cores * (total - interrupts - sum(ours)) / 100
    if others <= max(QUIET_CORES, cores * MOST_PERCENT / 100) or cores * (1 - total / 100) >= IDLE_CORES:
        return []
    return [f"other processes used {others:.2f} of {cores} cores"]


def _hindered(loads: list[Load]) -> list[str]:
    hindrances = {
        "cpu_throttled_percent": "the CPU was throttled by temperature",
        "gpu_throttled_percent": "GPUs were throttled by temperature or power supply",
        "gpu_shared_percent": "other processes were on the GPUs",
    }
    # Nodes on one machine report the same figures, so the maximum is enough.
    most = {name: max(load.mean.get(name, 0.0) for load in loads) for name in (*hindrances, _SWAPPED)}
    found = [f"{what} {most[name]:.0f}% of the time" for name, what in hindrances.items() if most[name] > MOST_PERCENT]
    if most[_SWAPPED] > MOST_SWAPPED:
        found.append(f"the machine swapped {most[_SWAPPED] / 1e6:.1f} MB/s")
    return found
