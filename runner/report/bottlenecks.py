"""Which rank keeps the others waiting, or which link, and why: only what the epochs show beyond doubt.

A rank is named if the others wait for it a tenth of the training or more, and if that is no accident: it was the
slowest in nine of ten steps and the others wait a quarter of the time; or over three epochs and more, the mean by which
it is busy longer lies four standard errors above zero, and it was busy longer in each. Its cause has to be in its own
figures. Two processes that share a machine take the processor from each other, now the one and now the other: a rank
that computes longer without needing more CPU time is not named if a rank that was faster is on the same machine. For
how long a CPU quota held a rank back the kernel itself has counted, so that needs no statistics.

`explain` says it in three lines, after what disturbed the run, with a bar for each rank.
"""

import math
import statistics
from dataclasses import dataclass

from runner.core.text import listed
from runner.records.schema import Record
from runner.report.times import (
    COMPUTE,
    DATA,
    RankTimes,
    Times,
    disturbances,
    disturbances_of_nodes,
    times_of,
)

LEAST_LOST = 0.10
"""Part of the training that the others wait, from which on a rank is named."""
LEAST_LOST_AT_ONCE = 0.25
FEWEST_EPOCHS = 3
STANDARD_ERRORS = 4.0
ALWAYS = 0.9
"""Part of the steps in which a rank is the slowest, from which on it needs no statistics over epochs."""
MOST_OF_IT = 0.5
"""Part of what a rank is busy longer that a cause has to account for."""
LEAST_EXCHANGE = 0.20
"""Part of the training that exchanges take, from which on links are looked at."""
SLOW_LINK = 500e6 / 8
"""Bytes per second; within a machine gigabytes are usual, and the slowest network of any cluster carries 1 Gbit/s."""
SLOW_BESIDE_OTHERS, FEWEST_LINKS = 0.25, 3
"""Part of the median of links between nodes below which one is slow; of fewer links none is usual."""
KINDS = {
    "loader": (
        "its loader",
        "more workers of that rank's loader (num_workers), fetching ahead, or its data on a faster disk",
    ),
    "quota": ("a CPU quota", "a higher CPU limit of that node (cpu of the container or pod), or fewer threads there"),
    "processor": (
        "its computing: a slower processor, or more work than the others have",
        "nodes of one kind, or a smaller part of each batch for that rank",
    ),
    "node": (
        "its node, which gives it less of the processor",
        "ending what else runs on that node, or training without it",
    ),
    "gpu": (
        "its computing: a slower or throttled GPU, or more work than the others have",
        "GPUs of one kind; look at that GPU's temperature and at what else runs on it",
    ),
    "link": (
        "its link",
        (
            "another interface (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME) or a faster network; larger batches or"
            " accumulated gradients exchange less often"
        ),
    ),
}
"""Of each kind of cause its words, and what helps."""
LETTERS = {
    "data": ("d", "waiting for data"),
    "compute": ("#", "computing"),
    "core": ("-", "not on a core"),
    "communication": ("x", "exchanging"),
    "straggler": (".", "waiting for the slowest"),
    "other": ("o", "other"),
}
"""Of each part its letter in a bar, and its words."""
MOST_BARS = 32
WIDTH = 40
"""Of a bar, so that its figures stand beside it on a terminal of 80 columns."""
NOT_TOLD = (
    "the record does not say where the time went: its program has to report epochs that the trainkit has timed"
    " (docs/comparing.md)"
)


@dataclass(frozen=True)
class Cause:
    """What slows a run: which ranks, and its figures.

    `kind` is one of `KINDS`; `lost` is the part of the training that it costs the other ranks, or all of them,
    `excess` by which part of it a rank was busy longer; `others_wait` is false if all ranks are named.
    """

    group: list[RankTimes]
    kind: str
    figures: str
    lost: float
    excess: float = 0.0
    others_wait: bool = True

    @property
    def ranks(self) -> tuple[int, ...]:
        """The numbers of its ranks."""
        return tuple(rank.rank for rank in self.group)

    @property
    def sentence(self) -> str:
        """Return what it is, in one line."""
        who, whom = self.group[0].name, "it"
        if len(self.group) > 1:
            who, whom = f"ranks {listed(self.ranks)}, each", "them"
        said = f"{who} by {KINDS[self.kind][0]}: {self.figures}"
        if self.kind == "link":
            return f"{said}; exchanges take {self.lost:.0%} of the training"
        return f"{said}; the others wait for {whom} {self.lost:.0%} of the training" if self.others_wait else said


def causes(times: Times, record: Record) -> list[Cause]:
    """Return what slows a run, the largest loss first; nothing where the evidence is weak."""
    found = [_held_back(times) or _straggler(times, record), _link(times)]
    return sorted((cause for cause in found if cause is not None), key=lambda cause: -cause.lost)


def _held_back(times: Times) -> Cause | None:
    """Name the ranks that a CPU quota holds back, if it is all of them or the others wait meanwhile."""
    # Of several processors the kernel counts each; an epoch in which nothing was held back does not mention it.
    throttled = {rank.rank: min(1.0, sum(rank.reported("throttled_share")) / len(rank.epochs)) for rank in times.ranks}
    most = max(throttled.values())
    if most < LEAST_LOST:
        return None
    group = [rank for rank in times.ranks if throttled[rank.rank] >= MOST_OF_IT * most]
    rest = _without(times.ranks, group)
    lost = most
    if rest:
        # While a rank is held back, the others wait in an exchange, whether it computed or exchanged itself.
        waited = _median(rest, "straggler", "communication")
        lost = min(most - statistics.median(throttled[rank.rank] for rank in rest), waited)
        if _median(group, "straggler") - _median(rest, "straggler") >= LEAST_LOST:
            return None  # it waits for them
    if lost < LEAST_LOST:
        return None
    figures = f"held back {most:.0%} of the training"
    return Cause(group, "quota", figures, lost, most, bool(rest))


def _without(ranks: list[RankTimes], group: list[RankTimes]) -> list[RankTimes]:
    """Return those that are not in a group, by their numbers: to compare all that is known of two ranks takes long."""
    named = {rank.rank for rank in group}
    return [rank for rank in ranks if rank.rank not in named]


def _median(ranks: list[RankTimes], *parts: str) -> float:
    """Return the median over ranks of their mean share of some parts together."""
    return statistics.median(rank.mean(*parts) for rank in ranks)


def _straggler(times: Times, record: Record) -> Cause | None:
    """Name the rank, or the like ones, that the others wait for because of its batches or its computing."""
    if len(times.ranks) < 2:  # nobody waits for a rank that is alone
        return None
    found = [_straggler_by(parts, times, record) for parts in (DATA, COMPUTE)]
    return max((cause for cause in found if cause is not None), key=lambda cause: cause.excess, default=None)


def _straggler_by(parts: tuple[str, ...], times: Times, record: Record) -> Cause | None:
    suspect = max(times.ranks, key=lambda rank: rank.mean(*parts))
    others = _without(times.ranks, [suspect])
    longer = suspect.mean(*parts) - _median(others, *parts)
    lost = _median(others, "straggler")
    if min(lost, longer) < LEAST_LOST or not _is_no_accident(suspect, others, parts, lost):
        return None
    usual = suspect.mean(*parts) - longer
    group = [rank for rank in times.ranks if rank.mean(*parts) - usual >= MOST_OF_IT * longer]
    rest = _without(others, group)
    if not rest:
        return None
    figures = f"{suspect.mean(*parts):.0%} of the training, the others {_median(rest, *parts):.0%}"
    if parts == DATA:
        return Cause(group, "loader", f"it waits for batches {figures}", lost, longer)
    why = _why_it_computes_longer(suspect, rest, record, f"it computes {figures}", longer)
    return why and Cause(group, *why, lost, longer)


def _is_no_accident(suspect: RankTimes, others: list[RankTimes], parts: tuple[str, ...], lost: float) -> bool:
    if lost >= LEAST_LOST_AT_ONCE and (suspect.mean_reported("slowest_share") or 0.0) >= ALWAYS:
        return True
    if len(suspect.epochs) < FEWEST_EPOCHS:
        return False
    # In seconds, not as shares: an epoch that something else made longer does not make a wait for batches shorter.
    usual = (statistics.median(each) for each in zip(*(rank.seconds_of(*parts) for rank in others), strict=True))
    excess: list[float] = [own - of_others for own, of_others in zip(suspect.seconds_of(*parts), usual, strict=True)]
    error = statistics.stdev(excess) / math.sqrt(len(excess))
    return min(excess) > 0 and statistics.fmean(excess) >= STANDARD_ERRORS * error


def _why_it_computes_longer(
    suspect: RankTimes, others: list[RankTimes], record: Record, figures: str, longer: float
) -> tuple[str, str] | None:
    """Return why a rank computes longer than the others, if its machine or its CPU time shows it."""
    nodes = {rank.node for rank in others} - {suspect.node}
    hindered = disturbances_of_nodes(record)
    only_here = [what for what in hindered.get(suspect.node, []) if all(what not in hindered.get(n, []) for n in nodes)]
    elsewhere = all(rank.machine != suspect.machine for rank in others)
    if only_here and elsewhere:
        return "node", f"{figures}; on its machine {only_here[0]}"
    if suspect.device.partition(":")[0] == "cuda":  # a process reports it with its number: cuda:1
        return "gpu", figures
    cpu, *of_others = (rank.mean_reported("cpu_share") for rank in (suspect, *others))
    known = [share for share in of_others if share is not None]
    if cpu is not None and known and cpu - statistics.median(known) >= MOST_OF_IT * longer:
        return "processor", f"{figures}; it needs {cpu:.2f} s of CPU time a second"
    return ("node", f"{figures}, without needing more CPU time") if elsewhere else None


def _link(times: Times) -> Cause | None:
    """Name the ranks whose messages leave slowly, if exchanges take much of the training."""
    share = times.mean("communication")
    if share < LEAST_EXCHANGE:
        return None
    ranks = {rank.rank: rank for rank in times.ranks}
    slow = [link for link in times.links if link.bytes_per_second < SLOW_LINK]
    between = [link for link in times.links if ranks[link.source].node != ranks[link.target].node]
    if not slow and len(between) >= FEWEST_LINKS:
        usual = statistics.median(link.bytes_per_second for link in between)
        slow = [link for link in between if link.bytes_per_second < SLOW_BESIDE_OTHERS * usual]
    if not slow:
        return None
    slowest = min(slow, key=lambda link: link.bytes_per_second)
    alike = {link.source for link in slow if link.bytes_per_second <= 2 * slowest.bytes_per_second}
    figures = f"{_speed(slowest.bytes_per_second)} from rank {slowest.source} to rank {slowest.target}"
    return Cause([ranks[rank] for rank in sorted(alike)], "link", figures, share)


def _speed(bytes_per_second: float) -> str:
    megabits = bytes_per_second * 8 / 1e6
    return f"{megabits:.0f} Mbit/s" if megabits < 1000 else f"{megabits / 1000:.1f} Gbit/s"  # a unit


def explain(record: Record) -> tuple[list[str], list[tuple[str, str, str]], str]:
    """Return three lines, for each rank its name, its bar and its figures, and what the letters of the bars mean.

    Of a disturbed run the first line says so: where its time went is not where that of a quiet one goes.
    """
    times = times_of(record)
    if times is None:
        return [_why_unknown(record)], [], ""
    found, disturbed = causes(times, record), disturbances(record)
    lines = [f"Disturbed: {'; '.join(disturbed)}"] if disturbed else []
    lines += [_where(times, record), _who(times, found), _what_helps(times, found, is_disturbed=bool(disturbed))]
    bars = _bars(times, found)
    shown = {letter for _, bar, _ in bars for letter in bar}
    return lines, bars, "  ".join(f"{letter} {words}" for letter, words in LETTERS.values() if letter in shown)


def _why_unknown(record: Record) -> str:
    """Return why nothing is known of the time, and what shows more."""
    if unobserved := record.facts.get("unobserved"):
        return f"nothing says where the time went: {unobserved}"
    if record.status != "completed" and not record.epochs:
        why = f": {record.reason}" if record.reason else ""
        return f"no epoch ended, so nothing says where the time went; the run is {record.status}{why}"
    return NOT_TOLD


def _where(times: Times, record: Record) -> str:
    means = times.shown()
    parts = sorted((part for part in means if round(100 * means[part])), key=lambda part: -means[part])
    ranks = f"{len(times.ranks):,} {'rank' if len(times.ranks) == 1 else 'ranks'}"
    shares = ", ".join(f"{LETTERS[part][1]} {means[part]:.0%}" for part in parts)
    knows_data = all("data_seconds" in epoch for rank in times.ranks for epoch in rank.epochs)
    unknown = "" if knows_data else "; what waits for data counts as computing"
    unknown += "" if times.knows_exchange else "; what is exchanged counts as computing"
    state = "" if record.status == "completed" else f" in the epochs of a run that is {record.status}"
    seconds = max(sum(rank.seconds) for rank in times.ranks)
    return f"Where the time went{state}: {shares} of {seconds:.4g} s (mean of {ranks}, {times.stretch}){unknown}"


def _who(times: Times, found: list[Cause]) -> str:
    if found:
        return f"What slows it: {'; '.join(cause.sentence for cause in found)}"
    if len(times.ranks) == 1:
        return "What slows it: there is one rank, which waits for no other"
    if not times.knows_exchange:
        return "What slows it: whether the ranks wait for each other could not be seen"
    if times.mean("straggler") >= LEAST_LOST:
        return "What slows it: the ranks wait for each other, and no rank or link stands out"
    return "What slows it: no rank and no link stands out"


def _what_helps(times: Times, found: list[Cause], *, is_disturbed: bool) -> str:
    if is_disturbed:
        words = "ending what disturbed it and running it again, before anything else is changed"
    elif found:
        words = "; ".join(dict.fromkeys(KINDS[cause.kind][1] for cause in found))
    elif times.shown()["core"] >= LEAST_LOST:
        words = "as many processes and threads as there are cores, with nothing else on them"
    elif times.mean("data") >= LEAST_LOST:
        words = "more workers of the loaders (num_workers) or fetching ahead: all ranks wait for data"
    elif times.mean("communication") >= LEAST_EXCHANGE:
        words = "larger batches, accumulated or compressed gradients: they exchange less"
    elif times.mean("straggler") >= LEAST_LOST:
        words = "a machine that nothing else uses, and as many threads as it has cores"
    elif not times.knows_exchange:
        words = "the kit's time marks in the script (docs/own-repository.md): they tell the exchange from the computing"
    else:
        words = "faster computing (bf16, a larger batch, torch.compile): little is lost between the ranks"
    return f"What would help: {words}"


def _bars(times: Times, found: list[Cause]) -> list[tuple[str, str, str]]:
    named = {rank for cause in found for rank in cause.ranks}
    # Of many ranks those that are named, and then the first ones.
    shown = sorted(times.ranks, key=lambda rank: (rank.rank not in named, rank.rank))[:MOST_BARS]
    bars = []
    for rank in sorted(shown, key=lambda rank: rank.rank):
        bar, share, shares = "", 0.0, rank.shown()
        for part, mean in shares.items():  # rounded so that all bars have the same width
            share += mean
            bar += LETTERS[part][0] * (min(WIDTH, round(share * WIDTH)) - len(bar))
        figures = (f"{LETTERS[part][0]} {mean:.0%}" for part, mean in shares.items() if round(100 * mean))
        bars.append((f"rank {rank.rank}", bar, "  ".join(figures)))
    left = len(times.ranks) - len(shown)
    return [*bars, (f"... and {left:,} more", "", "")] if left else bars
