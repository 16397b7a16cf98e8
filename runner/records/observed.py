"""Derive the figures of a script from what trainkit/observer counted inside the script's processes."""

from collections import defaultdict

from runner.records.schema import Observed, RankFacts, Record

SAMPLE_SECONDS = "sample_seconds"
"""Name of a figure: seconds per sample after warm-up, for all ranks together."""
_INSIDE = "the counts and clocks inside its processes"
_NOT_OBSERVED = "its processes were not observed (docs/own-repository.md lists where they can be)"
_MOST_WARMUP = 1 / 3
"""Largest share of steps that warm-up may take, so that enough steps remain to measure."""
_MOST_APART = 0.05
"""Largest time between the last steps of a node's ranks, as a share of the measured time."""


def take_observed(record: Record) -> None:
    """Set the figures of an observed script. If figures are missing, the fact `unobserved` says why."""
    facts, metrics = record.facts, record.metrics
    seen = [rank.observed for rank in record.ranks if rank.observed]
    if not seen:
        facts |= {"unobserved": _NOT_OBSERVED} if record.launch.dialects else {}
        return
    if steps := [one.steps for one in seen if one.steps is not None]:
        facts["steps"] = max(steps)
    if peak := max(one.peak_gpu_bytes or one.peak_bytes or 0 for one in seen):
        metrics["peak_bytes"] = peak
        record.sources["peak_bytes"] = _INSIDE
    whys = (f"rank {rank.rank}: {why}" for rank in record.ranks if (why := _why_unknown(rank.observed)))
    seconds = max(one.seconds_after_warmup or 0 for one in seen)
    if why := next(whys, "") or _unlike(record.ranks, seconds):
        facts["unobserved"] = why
        return
    rate = sum((one.samples_after_warmup or 0) / (one.seconds_after_warmup or 1) for one in seen)
    metrics |= {"train_seconds": seconds, SAMPLE_SECONDS: 1 / rate}
    record.sources |= dict.fromkeys(("train_seconds", SAMPLE_SECONDS), _INSIDE)
    facts["trained_samples"] = sum(one.samples or 0 for one in seen)
    batches = [(one.batch_size or 0) * (one.accumulation or 0) for one in seen]
    if all(batches):
        facts["global_batch_size"] = sum(batches)
    wholes = {one.dataset_samples if one.samples_per_pass == one.dataset_samples else None for one in seen}
    if len(wholes) == 1 and None not in wholes:
        facts["samples_of_each_process"] = wholes.pop()


def _why_unknown(seen: Observed | None) -> str:
    if seen is None or "all" in seen.unknown:
        return seen.unknown["all"] if seen else "not observed"
    if not seen.is_last:
        return "ended without its final line"
    if seen.samples is None:
        return seen.unknown.get("samples", "samples were not counted")
    if not (seen.seconds_after_warmup and seen.samples_after_warmup):
        return "too few or too uneven steps to tell where warm-up ends"
    if (seen.warmup_steps or 0) > _MOST_WARMUP * (seen.steps or 0):
        return f"warm-up took {seen.warmup_steps} of {seen.steps} steps"
    return ""


def _unlike(ranks: list[RankFacts], seconds: float) -> str:
    nodes: dict[int, list[int]] = defaultdict(list)  # by node, as a node's ranks share its clock
    for rank in ranks:
        if rank.observed:
            nodes[rank.node].append(rank.observed.last_step_ms or 0)
    if len({rank.observed.samples_from for rank in ranks if rank.observed}) > 1:
        return "only some ranks have a DataLoader, so ranks may share a batch"
    apart = max((max(ends) - min(ends)) / 1000 for ends in nodes.values())
    return f"the last steps of the ranks are {apart:.1f} s apart" if apart > _MOST_APART * seconds else ""
