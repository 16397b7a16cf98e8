"""What slows a run, in three lines, after what disturbed it, and a bar for each rank."""

from __future__ import annotations

from runner.core.text import one_line
from runner.records.schema import Record
from runner.report.disturbance import disturbances
from runner.report.explain.times import RankTimes, Times, times_of
from runner.report.explain.verdict import LEAST_EXCHANGE, LEAST_LOST, Cause, causes

WORDS = {
    "data": "waiting for data",
    "compute": "computing",
    "core": "not on a core",
    "communication": "exchanging",
    "straggler": "waiting for the slowest",
    "other": "other",
}
LETTERS = {"data": "d", "compute": "#", "core": "-", "communication": "x", "straggler": ".", "other": "o"}
MOST_BARS = 32
WIDTH = 40
"""Of a bar, so that its figures stand beside it on a terminal of 80 columns."""
NOT_TOLD = (
    "the record does not say where the time went: its epochs have to be timed by the trainkit of today"
    " (docs/comparing.md); run it again"
)
CAUSES = {
    "loader": "its loader",
    "quota": "a CPU quota",
    "processor": "its computing: a slower processor, or more work than the others have",
    "node": "its node, which gives it less of the processor",
    "gpu": "its computing: a slower or throttled GPU, or more work than the others have",
    "link": "its link",
}
HELP = {
    "loader": "more workers of that rank's loader (num_workers), fetching ahead, or its data on a faster disk",
    "quota": "a higher CPU limit of that node (cpu of the container or pod), or fewer threads there",
    "processor": "nodes of one kind, or a smaller part of each batch for that rank",
    "node": "ending what else runs on that node, or training without it",
    "gpu": "GPUs of one kind; look at that GPU's temperature and at what else runs on it",
    "link": "another interface (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME) or a faster network; larger batches or "
    "accumulated gradients exchange less often",
}


def note_of(record: Record) -> list[str]:
    """Return what slows a run, one line for each cause."""
    times = times_of(record)
    return [] if times is None else [_sentence(one) for one in causes(times, record)]


def explain(record: Record) -> tuple[list[str], list[tuple[str, list[tuple[str, int]], str]]]:
    """Return three lines, and for each rank its name, the stretches of its bar (part, width) and its figures.

    Of a disturbed run the first line says so: where its time went is not where that of a quiet one goes.
    """
    times = times_of(record)
    if times is None:
        return [NOT_TOLD if record.epochs else _why_no_epochs(record)], []
    found, disturbed = causes(times, record), disturbances(record)
    lines = [f"Disturbed: {'; '.join(disturbed)}"] if disturbed else []
    lines += [_where(times, record), _who(times, found), _what_helps(times, found, is_disturbed=bool(disturbed))]
    return lines, _bars(times, found)


def _why_no_epochs(record: Record) -> str:
    """Say why a record holds no epochs, and what shows more."""
    if record.status == "running":
        return "the run has no record yet: wait for its end, or make the record of one that has ended: runner collect"
    if record.status == "completed":
        return "the record holds no epochs, so nothing says where the time went: its program has to report epochs"
    why = f": {one_line(record.reason, 200)}" if record.reason else ""
    return f"no epoch ended, so nothing says where the time went; the run is {record.status}{why}"


def legend(bars: list[tuple[str, list[tuple[str, int]], str]]) -> str:
    """Say what the letters mean that stand in the bars."""
    shown = {part for _, stretches, _ in bars for part, columns in stretches if columns}
    return "  ".join(f"{letter} {WORDS[part]}" for part, letter in LETTERS.items() if part in shown)


def _where(times: Times, record: Record) -> str:
    means = times.shown()
    parts = sorted((part for part in means if _percent(means[part])), key=lambda part: -means[part])
    ranks = f"{len(times.ranks):,} {'rank' if len(times.ranks) == 1 else 'ranks'}"
    epochs = f"{times.epochs:,} {'epoch' if times.epochs == 1 else 'epochs'}"
    shares = ", ".join(f"{WORDS[part]} {means[part]:.0%}" for part in parts)
    unknown = "" if all(rank.knows_data for rank in times.ranks) else "; what waits for data counts as computing"
    state = "" if record.status == "completed" else f" in the epochs of a run that is {record.status}"
    return f"Where the time went{state}: {shares} of {times.seconds:.4g} s (mean of {ranks}, {epochs}){unknown}"


def _who(times: Times, found: list[Cause]) -> str:
    if found:
        return f"What slows it: {'; '.join(map(_sentence, found))}"
    if len(times.ranks) == 1:
        return "What slows it: there is one rank, which waits for no other"
    if times.mean("straggler") >= LEAST_LOST:
        return "What slows it: the ranks wait for each other, and no rank or link stands out"
    return "What slows it: no rank and no link stands out"


def _sentence(one: Cause) -> str:
    each, whom = (", each", "them") if len(one.ranks) > 1 else ("", "it")
    said = f"{one.who}{each} by {CAUSES[one.kind]}: {one.figures}"
    if one.kind == "link":
        return f"{said}; exchanges take {one.lost:.0%} of the training"
    return f"{said}; the others wait for {whom} {one.lost:.0%} of the training" if one.others_wait else said


def _what_helps(times: Times, found: list[Cause], *, is_disturbed: bool) -> str:
    if is_disturbed:
        words = "ending what disturbed it and running it again, before anything else is changed"
    elif found:
        words = "; ".join(dict.fromkeys(HELP[one.kind] for one in found))
    elif times.shown()["core"] >= LEAST_LOST:
        words = "as many processes and threads as there are cores, with nothing else on them"
    elif times.mean("data") >= LEAST_LOST:
        words = "more workers of the loaders (num_workers) or fetching ahead: all ranks wait for data"
    elif times.mean("communication") >= LEAST_EXCHANGE:
        words = "larger batches, accumulated or compressed gradients: they exchange less"
    elif times.mean("straggler") >= LEAST_LOST:
        words = "a machine that nothing else uses, and as many threads as it has cores"
    else:
        words = "faster computing (bf16, a larger batch, torch.compile): little is lost between the ranks"
    return f"What would help: {words}"


def _bars(times: Times, found: list[Cause]) -> list[tuple[str, list[tuple[str, int]], str]]:
    named = {rank for one in found for rank in one.ranks}
    shown = times.ranks
    if len(shown) > MOST_BARS:  # those that are named, and then the first ones
        first = sorted(shown, key=lambda rank: (rank.rank not in named, rank.rank))[:MOST_BARS]
        shown = sorted(first, key=lambda rank: rank.rank)
    bars = [(f"rank {rank.rank}", _stretches(rank), _figures(rank)) for rank in shown]
    if left := len(times.ranks) - len(shown):
        bars.append((f"... and {left:,} more", [], ""))
    return bars


def _stretches(rank: RankTimes) -> list[tuple[str, int]]:
    """Cut the bar; rounding sums up to its width."""
    found, share, column = [], 0.0, 0
    for part, mean in rank.shown().items():
        share += mean
        end = min(WIDTH, round(share * WIDTH))
        found.append((part, end - column))
        column = end
    return found


def _figures(rank: RankTimes) -> str:
    return "  ".join(f"{LETTERS[part]} {mean:.0%}" for part, mean in rank.shown().items() if _percent(mean))


def _percent(share: float) -> int:
    return round(100 * share)
