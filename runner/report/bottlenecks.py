"""Find the rank or link that slows a run, and its cause, from the times of each epoch.

A rank is a straggler if the other ranks wait for it at least a tenth of the training, and chance is ruled out. Two
observations rule out chance. In the first, the rank was the slowest in nine of ten steps, and the other ranks wait a
quarter of the time. In the second, the rank was busy longer in each of at least three epochs, and the mean of the
excess is at least four standard errors.

The straggler's figures must show the cause. Processes on one machine compete for its processor. If a rank computes
longer without using more CPU time, and a faster rank runs on the same machine, the slower rank is not named. Throttling
by a CPU quota needs no statistics, because the kernel counts it.
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
LEAST_LOST_AT_ONCE = 0.25
FEWEST_EPOCHS = 3
STANDARD_ERRORS = 4.0
ALWAYS = 0.9
MOST_OF_IT = 0.5
"""Share of a rank's extra busy time that a cause must explain."""
LEAST_EXCHANGE = 0.20
"""Links are examined only if exchanges take at least this share of the training."""
SLOW_LINK = 500e6 / 8
"""Links with fewer bytes per second are slow: even the slowest cluster networks carry 1 Gbit/s."""
SLOW_BESIDE_OTHERS, FEWEST_LINKS = 0.25, 3
"""Among at least `FEWEST_LINKS` links between nodes, a link below this share of the median speed is slow."""
KINDS = {
    "loader": (
        "its loader",
        "more workers of that rank's loader (num_workers), fetching ahead, or its data on a faster disk",
    ),
    "quota": ("a CPU quota", "a higher CPU limit for that node (cpu of the container or pod), or fewer threads on it"),
    "processor": (
        "its computing: a slower processor or more work than the other ranks",
        "nodes of one kind, or a smaller part of each batch for that rank",
    ),
    "node": (
        "its node, where it gets less CPU time",
        "stopping other work on that node, or training without it",
    ),
    "gpu": (
        "its computing: a slower or throttled GPU, or more work than the other ranks",
        "GPUs of one kind; check that GPU's temperature and what else runs on it",
    ),
    "link": (
        "its link",
        (
            "another interface (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME) or a faster network; larger batches or"
            " accumulated gradients exchange less often"
        ),
    ),
}
LETTERS = {
    "data": ("d", "waiting for data"),
    "compute": ("#", "computing"),
    "core": ("-", "waiting for a core"),
    "communication": ("x", "exchanging"),
    "straggler": (".", "waiting for the slowest"),
    "other": ("o", "other"),
}
MOST_BARS = 32
WIDTH = 40
"""Characters of a bar. A bar and its figures fit in 80 columns."""
NOT_TOLD = (
    "the record has no breakdown of the time: the program must report epochs timed by the trainkit (docs/comparing.md)"
)


@dataclass(frozen=True)
class Cause:
    """A cause that slows a run, the ranks concerned, and the figures that show the cause.

    `kind` is a key of `KINDS`. `lost` is the share of the training that the cause costs the other ranks, or all ranks.
    `excess` is the share of the training by which a rank was busy longer. `others_wait` is False if the cause concerns
    all ranks.
    """

    group: list[RankTimes]
    kind: str
    figures: str
    lost: float
    excess: float = 0.0
    others_wait: bool = True

    @property
    def ranks(self) -> tuple[int, ...]:
        """The numbers of the ranks concerned."""
        return tuple(rank.rank for rank in self.group)

    @property
    def sentence(self) -> str:
        """The cause and its figures in one line."""
        who, whom = self.group[0].name, "it"
        if len(self.group) > 1:
            who, whom = f"ranks {listed(self.ranks)}, each", "them"
        said = f"{who} by {KINDS[self.kind][0]}: {self.figures}"
        if self.kind == "link":
            return f"{said}; exchanges take {self.lost:.0%} of the training"
        return f"{said}; the others wait for {whom} {self.lost:.0%} of the training" if self.others_wait else said


def causes(times: Times, record: Record) -> list[Cause]:
    """Return the causes that slow a run, the largest loss first. Causes with weak evidence are left out."""
    found = [_held_back(times) or _straggler(times, record), _link(times)]
    return sorted((cause for cause in found if cause is not None), key=lambda cause: -cause.lost)


def _held_back(times: Times) -> Cause | None:
    # The kernel adds throttling over processors. Epochs without throttling lack the figure.
    throttled = {rank.rank: min(1.0, sum(rank.reported("throttled_share")) / len(rank.epochs)) for rank in times.ranks}
    most = max(throttled.values())
    if most < LEAST_LOST:
        return None
    group = [rank for rank in times.ranks if throttled[rank.rank] >= MOST_OF_IT * most]
    rest = _without(times.ranks, group)
    lost = most
    if rest:
        # The others wait in an exchange, whether the throttled rank was computing or exchanging.
        waited = _median(rest, "straggler", "communication")
        lost = min(most - statistics.median(throttled[rank.rank] for rank in rest), waited)
        if _median(group, "straggler") - _median(rest, "straggler") >= LEAST_LOST:
            return None  # the throttled ranks wait for the others
    if lost < LEAST_LOST:
        return None
    figures = f"throttled for {most:.0%} of the training"
    return Cause(group, "quota", figures, lost, most, bool(rest))


def _without(ranks: list[RankTimes], group: list[RankTimes]) -> list[RankTimes]:
    named = {rank.rank for rank in group}  # comparing whole `RankTimes` is slow
    return [rank for rank in ranks if rank.rank not in named]


def _median(ranks: list[RankTimes], *parts: str) -> float:
    return statistics.median(rank.mean(*parts) for rank in ranks)


def _straggler(times: Times, record: Record) -> Cause | None:
    if len(times.ranks) < 2:
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
    # Compare seconds: if something else makes an epoch longer, the same wait is a smaller share.
    usual = (statistics.median(each) for each in zip(*(rank.seconds_of(*parts) for rank in others), strict=True))
    excess: list[float] = [own - of_others for own, of_others in zip(suspect.seconds_of(*parts), usual, strict=True)]
    error = statistics.stdev(excess) / math.sqrt(len(excess))
    return min(excess) > 0 and statistics.fmean(excess) >= STANDARD_ERRORS * error


def _why_it_computes_longer(
    suspect: RankTimes, others: list[RankTimes], record: Record, figures: str, longer: float
) -> tuple[str, str] | None:
    nodes = {rank.node for rank in others} - {suspect.node}
    hindered = disturbances_of_nodes(record)
    only_here = [what for what in hindered.get(suspect.node, []) if all(what not in hindered.get(n, []) for n in nodes)]
    elsewhere = all(rank.machine != suspect.machine for rank in others)
    if only_here and elsewhere:
        return "node", f"{figures}; on its machine {only_here[0]}"
    if suspect.device.partition(":")[0] == "cuda":  # such as cuda:1
        return "gpu", figures
    cpu, *of_others = (rank.mean_reported("cpu_share") for rank in (suspect, *others))
    known = [share for share in of_others if share is not None]
    if cpu is not None and known and cpu - statistics.median(known) >= MOST_OF_IT * longer:
        return "processor", f"{figures}; it uses {cpu:.2f} s of CPU time per second"
    return ("node", f"{figures}, without using more CPU time") if elsewhere else None


def _link(times: Times) -> Cause | None:
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
    return f"{megabits:.0f} Mbit/s" if megabits < 1000 else f"{megabits / 1000:.1f} Gbit/s"


def explain(record: Record) -> tuple[list[str], list[tuple[str, str, str]], str]:
    """Explain where a run's time went and what slows the run.

    Returns lines of text; the name, bar and figures of each rank; and the legend of the bars. If the run was disturbed,
    the first line says so, because a quiet run would show other times.
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
    if unobserved := record.facts.get("unobserved"):
        return f"the record has no breakdown of the time: {unobserved}"
    if record.status != "completed" and not record.epochs:
        why = f": {record.reason}" if record.reason else ""
        return f"no epoch ended, so there is no breakdown of the time; the run is {record.status}{why}"
    return NOT_TOLD


def _where(times: Times, record: Record) -> str:
    means = times.shown()
    parts = sorted((part for part in means if round(100 * means[part])), key=lambda part: -means[part])
    ranks = f"{len(times.ranks):,} {'rank' if len(times.ranks) == 1 else 'ranks'}"
    shares = ", ".join(f"{LETTERS[part][1]} {means[part]:.0%}" for part in parts)
    knows_data = all("data_seconds" in epoch for rank in times.ranks for epoch in rank.epochs)
    unknown = "" if knows_data else "; waiting for data counts as computing"
    unknown += "" if times.knows_exchange else "; exchanging counts as computing"
    state = "" if record.status == "completed" else f" in the finished epochs (the run is {record.status})"
    seconds = max(sum(rank.seconds) for rank in times.ranks)
    return f"Where the time went{state}: {shares} of {seconds:.4g} s (mean of {ranks}, {times.stretch}){unknown}"


def _who(times: Times, found: list[Cause]) -> str:
    if found:
        return f"What slows it: {'; '.join(cause.sentence for cause in found)}"
    if len(times.ranks) == 1:
        return "What slows it: nothing to compare, because the run has one rank"
    if not times.knows_exchange:
        return "What slows it: unknown, because waits between the ranks were not measured"
    if times.mean("straggler") >= LEAST_LOST:
        return "What slows it: the ranks wait for each other, but no rank or link stands out"
    return "What slows it: no rank or link stands out"


def _what_helps(times: Times, found: list[Cause], *, is_disturbed: bool) -> str:
    if is_disturbed:
        words = "running it again without the disturbance, before changing anything else"
    elif found:
        words = "; ".join(dict.fromkeys(KINDS[cause.kind][1] for cause in found))
    elif times.shown()["core"] >= LEAST_LOST:
        words = "only as many processes and threads as there are cores, with nothing else running on them"
    elif times.mean("data") >= LEAST_LOST:
        words = "more loader workers (num_workers) or prefetching, because all ranks wait for data"
    elif times.mean("communication") >= LEAST_EXCHANGE:
        words = "larger batches, accumulated or compressed gradients, which exchange less"
    elif times.mean("straggler") >= LEAST_LOST:
        words = "a machine without other work, and as many threads as it has cores"
    elif not times.knows_exchange:
        words = "the kit's time marks in the script (docs/own-repository.md), which separate exchanging from computing"
    else:
        words = "faster computing (bf16, a larger batch, torch.compile), because little is lost between the ranks"
    return f"What would help: {words}"


def _bars(times: Times, found: list[Cause]) -> list[tuple[str, str, str]]:
    named = {rank for cause in found for rank in cause.ranks}
    # If there are too many ranks, show the named ranks and then the first ranks.
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
