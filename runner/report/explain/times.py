"""Record -> what each rank did with the seconds of each epoch, as shares of them."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from runner.core.layout import LARGEST_WORLD
from runner.core.text import one_line
from runner.core.values import number, whole
from runner.records.schema import Record

PARTS = ("data", "compute", "communication", "straggler", "other")
"""What the seconds of an epoch are made of; `data` is part of `compute` where nobody marked it."""
SHOWN = ("data", "compute", "core", "communication", "straggler", "other")
"""The same as a person is told it: a process that waits for a core does not compute."""
DATA, COMPUTE = ("data",), ("compute", "other")
LEAST_WITHOUT_CORE = 0.05
"""Of an epoch; less may be what other parts took of the CPU time."""
MOST_LOOKED_AT = 500_000
"""Ranks times epochs; a record that has more was not made by the kit."""


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
    seconds: list[float] = field(default_factory=list)
    shares: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in PARTS})
    extra: dict[str, list[float]] = field(default_factory=lambda: {"cpu": [], "throttled": [], "slowest": []})

    @property
    def name(self) -> str:
        """Name the rank with its place."""
        return f"rank {self.rank} (node {self.node}{f', {self.host}' if self.host else ''})"

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
    """All ranks of a run that reported the same epochs, by rank, and its links."""

    ranks: list[RankTimes]
    links: list[Link]
    epochs: int

    def mean(self, *parts: str) -> float:
        """Return the mean share over ranks and epochs."""
        return statistics.fmean(rank.mean(*parts) for rank in self.ranks)

    def shown(self) -> dict[str, float]:
        """Return the mean share of each part that a person is told, over ranks and epochs."""
        each = [rank.shown() for rank in self.ranks]
        return {part: statistics.fmean(shares[part] for shares in each) for part in SHOWN}


def times_of(record: Record) -> Times | None:
    """Read where the time of a run went; None if its epochs do not say it of every rank."""
    ranks = {rank.rank: _rank(rank.rank, rank.node, rank.facts) for rank in record.ranks[:LARGEST_WORLD]}
    taken = 0
    for row in record.epochs:
        told = row.get("time_by_rank")
        # Only epochs in which all ranks said it can be compared.
        if not isinstance(told, dict) or {str(rank) for rank in ranks} - told.keys():
            continue
        if (taken := taken + len(ranks)) > MOST_LOOKED_AT:
            break
        found = [(rank, _seconds(told[str(rank.rank)])) for rank in ranks.values()]
        if any(not seconds for _, seconds in found):
            continue
        for rank, seconds in found:
            _take(rank, seconds, told[str(rank.rank)])
    known = [rank for rank in ranks.values() if rank.seconds]
    if not known:
        return None
    return Times(sorted(known, key=lambda rank: rank.rank), list(_links(record)), len(known[0].seconds))


def _rank(rank: int, node: int, facts: dict[str, Any]) -> RankTimes:
    host, machine, device = one_line(facts.get("host") or "", 60), facts.get("machine"), facts.get("device")
    place = machine if isinstance(machine, str) else node
    return RankTimes(rank, node, host, place, device if isinstance(device, str) else "cpu")


def _seconds(told: object) -> dict[str, float]:
    """Check the seconds of one rank and epoch; nothing if they cannot be."""
    if not isinstance(told, dict):
        return {}
    found = {part: number(told.get(f"{part}_seconds"), 0.0) for part in PARTS}
    if any(found[part] is None for part in PARTS[1:]):
        return {}
    seconds = {part: value or 0.0 for part, value in found.items()}
    return seconds if sum(seconds.values()) > 0 else {}


def _take(rank: RankTimes, seconds: dict[str, float], told: dict[str, Any]) -> None:
    total = sum(seconds.values())
    rank.seconds.append(total)
    rank.knows_data = rank.knows_data and "data_seconds" in told
    for part in PARTS:
        rank.shares[part].append(seconds[part] / total)
    for name, values in rank.extra.items():
        if (value := number(told.get(f"{name}_share"), 0.0)) is not None:
            values.append(value)


def _links(record: Record) -> Iterable[Link]:
    for rank in record.ranks:
        link = rank.facts.get("link")
        if isinstance(link, dict):
            target, speed = whole(link.get("to"), 0, LARGEST_WORLD - 1), number(link.get("bytes_per_second"), 1e-6)
            if target is not None and speed is not None and target != rank.rank:
                yield Link(rank.rank, target, speed)
