"""What was seen inside the processes of a script (trainkit/observer) -> figures of its record."""

from typing import NamedTuple

from runner.records.schema import RankFacts, Record

SAMPLE_SECONDS = "sample_seconds"
"""Of all ranks together, from the end of the warm-up to the last step: the inverse of samples per second."""
INSIDE = "the counts and clocks inside its processes"
NOT_OBSERVED = "its processes were not observed (docs/own-repository.md says where they are)"
_TOO_FEW = "too few steps, or too uneven ones, to see where the warm-up ends"
MOST_WARMUP = 1 / 3
"""Of all steps; what follows a longer one is no longer most of the training."""
MOST_APART = 0.05
"""How far the last steps of two ranks of a node may be apart, of the time that is measured."""


class _Trained(NamedTuple):
    """What one rank trained on, after its warm-up and in all."""

    seconds: float
    samples: int
    all_samples: int


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
    trained = []
    for rank in record.ranks:
        found = _trained(rank)
        if isinstance(found, str):
            record.facts["unobserved"] = f"rank {rank.rank}: {found}"
            return
        trained.append(found)
    if why := _unlike(record.ranks, max(one.seconds for one in trained)):
        record.facts["unobserved"] = why
        return
    rate = sum(one.samples / one.seconds for one in trained)
    record.metrics |= {"train_seconds": max(one.seconds for one in trained), SAMPLE_SECONDS: 1 / rate}
    record.sources |= dict.fromkeys(("train_seconds", SAMPLE_SECONDS), INSIDE)
    record.facts["trained_samples"] = sum(one.all_samples for one in trained)
    if all(one.batch_size and one.accumulation for one in seen):
        record.facts["global_batch_size"] = sum((one.batch_size or 0) * (one.accumulation or 0) for one in seen)
    wholes = {one.dataset_samples for one in seen if one.samples_per_pass == one.dataset_samples}
    if len(wholes) == 1 and None not in wholes and all(one.samples_per_pass in wholes for one in seen):
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


def _trained(rank: RankFacts) -> _Trained | str:
    """Return what a rank trained on, or why that is not known."""
    seen = rank.observed
    if seen is None:
        return "it was not observed"
    seconds, samples = seen.seconds_after_warmup or 0.0, seen.samples_after_warmup or 0
    late = (seen.warmup_steps or 0) > MOST_WARMUP * (seen.steps or 0)
    whys: tuple[str | bool | None, ...] = (
        seen.unknown.get("all"),
        not seen.is_last and "it ended without its last line",
        seen.samples is None and seen.unknown.get("samples", "its samples were not counted"),
        not (seconds and samples) and _TOO_FEW,
        late and f"its steps took as long as the later ones only after {seen.warmup_steps} of {seen.steps}",
    )
    why = next(filter(None, whys), None)
    return str(why) if why else _Trained(seconds, samples, seen.samples or 0)
