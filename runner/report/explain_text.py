"""What slows a run, in three lines, after what disturbed it, and a bar for each rank."""

from runner.records.schema import Record
from runner.report.bottlenecks import KINDS, LEAST_EXCHANGE, LEAST_LOST, Cause, causes
from runner.report.disturbance import disturbances
from runner.report.times import Times, times_of

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
    "the record does not say where the time went: its epochs have to be timed by the trainkit of today"
    " (docs/comparing.md); run it again"
)


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
    if record.epochs:
        return NOT_TOLD
    if record.status == "running":
        return "the run has no record yet: wait for its end, or make the record of one that has ended: runner collect"
    if record.status == "completed":
        return "the record holds no epochs, so nothing says where the time went: its program has to report epochs"
    why = f": {record.reason}" if record.reason else ""
    return f"no epoch ended, so nothing says where the time went; the run is {record.status}{why}"


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
        words = "the kit's time marks in the script (docs/trainkit.md): they tell the exchange from the computing"
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
