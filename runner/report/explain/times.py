"""Record -> what each rank did with the seconds of each epoch, as shares of them."""

import statistics
from dataclasses import dataclass, field
from typing import NamedTuple

from runner.records.schema import Observed, RankFacts, Record

PARTS = ("data", "compute", "communication", "straggler", "other")
"""What the seconds of an epoch are made of; `data` is part of `compute` where nobody marked it."""
SHOWN = ("data", "compute", "core", "communication", "straggler", "other")
"""The same as a person is told it: a process that waits for a core does not compute."""
DATA, COMPUTE = ("data",), ("compute", "other")
LEAST_WITHOUT_CORE = 0.05
"""Of an epoch; less may be what other parts took of the CPU time."""


class Link(NamedTuple):
    """How fast one rank's messages reached another rank."""

    source: int
    target: int
    bytes_per_second: float


@dataclass
class RankTimes:
    """One rank: for each epoch the share of every part, and what else its epochs reported.

    `seconds` are those of its epochs. `cpu` is the CPU time and `throttled` how long its CPU quota held it back, both
    as a share of the epoch; `slowest` the share of the steps in which no rank was slower.
    """

    rank: int
    node: int
    host: str
    machine: object
    device: str
    knows_data: bool = True
    knows_exchange: bool = True
    seconds: list[float] = field(default_factory=list)
    shares: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in PARTS})
    extra: dict[str, list[float]] = field(default_factory=lambda: {"cpu": [], "throttled": [], "slowest": []})

    @property
    def name(self) -> str:
        """Name the rank with its place."""
        return f"rank {self.rank} (node {self.node}{f', {self.host}' if self.host else ''})"

    def take(self, told: dict[str, float]) -> None:
        """Take in what it did with the seconds of one epoch."""
        seconds = {part: told.get(f"{part}_seconds", 0.0) for part in PARTS}
        total = sum(seconds.values()) or 1.0  # of an epoch without a step
        self.seconds.append(total)
        self.knows_data = self.knows_data and "data_seconds" in told
        for part in PARTS:
            self.shares[part].append(seconds[part] / total)
        for name, values in self.extra.items():
            if f"{name}_share" in told:
                values.append(told[f"{name}_share"])

    def mean(self, *parts: str) -> float:
        """Return the mean share of some parts together."""
        return statistics.fmean(self.series(*parts))

    def series(self, *parts: str) -> list[float]:
        """Return the share of some parts together, epoch by epoch."""
        return [sum(values) for values in zip(*(self.shares[part] for part in parts), strict=True)]

    def seconds_of(self, *parts: str) -> list[float]:
        """Return the seconds of some parts together, epoch by epoch."""
        return [share * seconds for share, seconds in zip(self.series(*parts), self.seconds, strict=True)]

    def extra_mean(self, name: str) -> float | None:
        """Return the mean of what else was reported; None if it never was."""
        return statistics.fmean(self.extra[name]) if self.extra[name] else None

    def shown(self) -> dict[str, float]:
        """Return the mean share of each part, with the computing for which the process cannot have had a core.

        All of its CPU time is taken for computing, so it waited at least for so long. A GPU computes without a core.
        """
        shares = {part: self.mean(part) for part in PARTS}
        cpu = self.extra_mean("cpu") if len(self.extra["cpu"]) == len(self.seconds) else None
        waited = shares["compute"] - cpu if cpu is not None and self.device == "cpu" else 0.0
        shares["core"] = waited if waited >= LEAST_WITHOUT_CORE else 0.0
        shares["compute"] -= shares["core"]
        return {part: shares[part] for part in SHOWN}


@dataclass(frozen=True)
class Times:
    """All ranks of a run of which the same stretch of the training is known, by rank, and its links.

    `stretch` is that stretch in words: its epochs, or the steps of a script after the warm-up.
    """

    ranks: list[RankTimes]
    links: list[Link]
    stretch: str

    @property
    def knows_exchange(self) -> bool:
        """Whether what is exchanged is told from computing."""
        return all(rank.knows_exchange for rank in self.ranks)

    def mean(self, *parts: str) -> float:
        """Return the mean share over ranks and epochs."""
        return statistics.fmean(rank.mean(*parts) for rank in self.ranks)

    def shown(self) -> dict[str, float]:
        """Return the mean share of each part that a person is told, over ranks and epochs."""
        each = [rank.shown() for rank in self.ranks]
        return {part: statistics.fmean(shares[part] for shares in each) for part in SHOWN}


def times_of(record: Record) -> Times | None:
    """Read where the time of a run went; None if neither its epochs nor what was observed say it of every rank."""
    told = [row["time_by_rank"] for row in record.epochs if "time_by_rank" in row]
    told = [by_rank for by_rank in told if len(by_rank) == len(record.ranks)]
    if not told:
        return _of_script(record)
    ranks = [_rank(rank) for rank in record.ranks]
    for rank in ranks:
        for by_rank in told:
            rank.take(by_rank[str(rank.rank)])
    links = [(rank.rank, rank.facts["link"]) for rank in record.ranks if "link" in rank.facts]
    return Times(
        ranks,
        [Link(rank, link["to"], link["bytes_per_second"]) for rank, link in links if link["to"] != rank],
        f"{len(told):,} {'epoch' if len(told) == 1 else 'epochs'}",
    )


def _of_script(record: Record) -> Times | None:
    """Return what was seen inside the processes of a script; what the ranks exchange may count as computing.

    The rank that waits least for the others is taken to exchange all that time.
    """
    seen = [rank.observed for rank in record.ranks if rank.observed and rank.observed.seconds_after_warmup]
    if not seen or len(seen) < len(record.ranks):
        return None
    exchanges = list(map(_exchange, seen)) if len(seen) > 1 else [0.0]
    known = [seconds for seconds in exchanges if seconds is not None]
    ranks = [_rank(rank) for rank in record.ranks]
    for rank, one, exchange in zip(ranks, seen, exchanges, strict=True):
        rank.knows_exchange = len(known) == len(seen)
        seconds = {"data": one.data_seconds_after_warmup or 0.0, "communication": 0.0, "straggler": 0.0}
        if exchange is not None and rank.knows_exchange:
            seconds |= {"communication": min(known), "straggler": exchange - min(known)}
        seconds["compute"] = max(0.0, (one.seconds_after_warmup or 0.0) - sum(seconds.values()))
        rank.take({f"{part}_seconds": spent for part, spent in seconds.items()})
    steps = max((one.steps or 0) - (one.warmup_steps or 0) for one in seen)
    return Times(ranks, [], f"{steps:,} steps after the warm-up")


def _exchange(seen: Observed) -> float | None:
    """Return the seconds of exchanging and waiting for others: in collectives, or as DDP has timed some of its own."""
    if seen.exchange_seconds_a_backward is None or seen.accumulation != 1:
        return seen.collective_seconds_after_warmup
    return seen.exchange_seconds_a_backward * ((seen.steps or 0) - (seen.warmup_steps or 0))


def _rank(rank: RankFacts) -> RankTimes:
    facts = rank.facts
    machine = facts.get("machine") or rank.node
    return RankTimes(rank.rank, rank.node, facts.get("host") or "", machine, facts.get("device") or "cpu")
