"""Counts of the observer in the processes of a script (trainkit/observer) -> figures of its record."""

from runner.records.schema import Observed, RankFacts, Record

SAMPLE_SECONDS = "sample_seconds"
"""Of all ranks together, from the end of the warm-up to the last step: the inverse of samples per second."""
INSIDE = "the counts and clocks inside its processes"
NOT_OBSERVED = "its processes were not observed (docs/own-repository.md says where they are)"
_TOO_FEW = "too few steps, or too uneven ones, to see where the warm-up ends"
MOST_WARMUP = 1 / 3
"""Of all steps; what follows a longer one is no longer most of the training."""
MOST_APART = 0.05
"""How far the last steps of two ranks of a node may be apart, of the time that is measured."""


def take_observed(record: Record) -> None:
    """Fill in the figures of a script whose processes were observed; `unobserved` says why they are missing."""
    seen = [rank.observed for rank in record.ranks if rank.observed]
    if not seen:
        record.facts |= {"unobserved": NOT_OBSERVED} if record.launch.dialects else {}
        return
    if steps := [one.steps for one in seen if one.steps is not None]:
        record.facts["steps"] = max(steps)
    if peak := max(one.peak_gpu_bytes or one.peak_bytes or 0 for one in seen):
        record.metrics["peak_bytes"] = peak
        record.sources["peak_bytes"] = INSIDE
    whys = (f"rank {rank.rank}: {why}" for rank in record.ranks if (why := _why_unknown(rank.observed)))
    seconds = max(one.seconds_after_warmup or 0 for one in seen)
    if why := next(whys, "") or _unlike(record.ranks, seconds):
        record.facts["unobserved"] = why
        return
    rate = sum((one.samples_after_warmup or 0) / (one.seconds_after_warmup or 1) for one in seen)
    record.metrics |= {"train_seconds": seconds, SAMPLE_SECONDS: 1 / rate}
    record.sources |= dict.fromkeys(("train_seconds", SAMPLE_SECONDS), INSIDE)
    record.facts["trained_samples"] = sum(one.samples or 0 for one in seen)
    if all(one.batch_size and one.accumulation for one in seen):
        record.facts["global_batch_size"] = sum((one.batch_size or 0) * (one.accumulation or 0) for one in seen)
    wholes = {one.dataset_samples if one.samples_per_pass == one.dataset_samples else None for one in seen}
    if len(wholes) == 1 and None not in wholes:
        record.facts["samples_of_each_process"] = wholes.pop()


def _unlike(ranks: list[RankFacts], seconds: float) -> str:
    """Return why the samples of the ranks cannot be added up; '' if nothing says so."""
    seen = [(rank.node, rank.observed) for rank in ranks if rank.observed]
    if len({one.samples_from for _, one in seen}) > 1:
        return "some ranks have a DataLoader and others none, so that they may share a batch"
    for node in {node for node, _ in seen}:  # of which the clock is one
        ends = [one.last_step_ms or 0 for its, one in seen if its == node]
        apart = (max(ends) - min(ends)) / 1000
        if apart > MOST_APART * seconds:
            return f"the last steps of its ranks are {apart:.1f} s apart"
    return ""


def _why_unknown(seen: Observed | None) -> str:
    """Return why it is not known what a rank trained on; '' if it is."""
    if seen is None or "all" in seen.unknown:
        return seen.unknown["all"] if seen else "it was not observed"
    if not seen.is_last:
        return "it ended without its last line"
    if seen.samples is None:
        return seen.unknown.get("samples", "its samples were not counted")
    if not (seen.seconds_after_warmup and seen.samples_after_warmup):
        return _TOO_FEW
    if (seen.warmup_steps or 0) > MOST_WARMUP * (seen.steps or 0):
        return f"its steps took as long as the later ones only after {seen.warmup_steps} of {seen.steps}"
    return ""
