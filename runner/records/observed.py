"""What was seen inside the processes of a script (trainkit/observer) -> figures of its record, and doubts."""

from typing import NamedTuple

from runner.core.text import listed
from runner.records.checks import Doubts
from runner.records.schema import Observed, RankFacts, Record

SAMPLE_SECONDS = "sample_seconds"
"""Of all ranks together, from the end of the warm-up to the last step: the inverse of samples per second."""
INSIDE = "the counts and clocks inside its processes"
NOT_OBSERVED = "its processes were not observed (docs/own-repository.md says where they are)"
_TOO_FEW = "too few steps, or too uneven ones, to see where the warm-up ends"


class _Trained(NamedTuple):
    """What one rank trained on, after its warm-up and in all."""

    seconds: float
    samples: int
    all_samples: int


def take_observed(record: Record, doubts: Doubts) -> None:
    """Fill in the figures of a script whose processes were observed; `unobserved` says why they are missing."""
    seen = [rank.observed for rank in record.ranks if rank.observed]
    if not seen:
        record.facts |= {"unobserved": NOT_OBSERVED} if record.launch.dialects else {}
        return
    record.facts["steps"] = max(one.steps or 0 for one in seen)
    record.metrics["peak_bytes"] = max(one.peak_gpu_bytes or one.peak_bytes or 0 for one in seen)
    record.sources["peak_bytes"] = INSIDE
    trained = []
    for rank in record.ranks:
        found = _trained(rank)
        if isinstance(found, str):
            record.facts["unobserved"] = f"rank {rank.rank}: {found}"
            return
        trained.append(found)
    rate = sum(one.samples / one.seconds for one in trained)
    record.metrics |= {"train_seconds": max(one.seconds for one in trained), SAMPLE_SECONDS: 1 / rate}
    record.sources |= dict.fromkeys(("train_seconds", SAMPLE_SECONDS), INSIDE)
    record.facts["trained_samples"] = sum(one.all_samples for one in trained)
    record.facts["global_batch_size"] = sum((one.batch_size or 0) * (one.accumulation or 0) for one in seen)
    if any(not one.batch_size or not one.accumulation for one in seen):
        del record.facts["global_batch_size"]
    if record.launch.scaling != "weak" and len(seen) > 1 and all(map(_was_handed_everything, seen)):
        sizes = listed(sorted({f"{one.dataset_samples:,}" for one in seen}))
        doubts.add(
            f"each of {len(seen)} processes was handed all {sizes} samples of its data set, so nothing is shared out"
            " (DistributedSampler); scaling: weak says that each has a data set of its own"
        )


def _trained(rank: RankFacts) -> _Trained | str:
    """Return what a rank trained on, or why that is not known."""
    seen = rank.observed
    if seen is None:
        return "it was not observed"
    if why := seen.unknown.get("all"):
        return why
    if not seen.is_last:
        return "it ended without its last line"
    if seen.samples is None:
        return seen.unknown.get("samples", "its samples were not counted")
    if not seen.seconds_after_warmup or not seen.samples_after_warmup:
        return _TOO_FEW
    return _Trained(seen.seconds_after_warmup, seen.samples_after_warmup, seen.samples)


def _was_handed_everything(seen: Observed) -> bool:
    return seen.samples_per_pass is not None and seen.samples_per_pass == seen.dataset_samples
