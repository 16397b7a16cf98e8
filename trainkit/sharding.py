"""The sharding rule of all programs: which rank gets which sample.

Each epoch has one order of all samples, drawn from (seed, epoch) and so the same on every rank. The global batch k is
``order[k * B : (k + 1) * B]``; a short last batch is kept. Each rank takes a contiguous, near-equal slice of every
global batch. So each epoch sees each sample exactly once for any world size (torch's `DistributedSampler` repeats
samples until the world size divides their number).

Shares (`trainkit.balance`) change the lengths of slices, but not the samples or the order of a global batch.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from typing_extensions import Self

Any_Batch = TypeVar("Any_Batch", bound="Batch")


@dataclass(frozen=True)
class Batch:
    """A rank's part of one global batch. Families add inputs, as tensors with a row for each sample.

    A rank with an empty part holds one padding sample, so that the rank takes part in the step. `samples` is then 0:
    only the first `samples` losses count.
    """

    labels: Tensor
    """[n], int64."""
    samples: int
    global_samples: int

    def part(self, rows: range) -> Self:
        """Return the samples in a range of positions."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        changes: dict[str, Any] = {name: value[rows.start : rows.stop] for name, value in tensors.items()}
        return replace(self, samples=len(rows), **changes)

    def parts(self, count: int) -> list[Self]:
        """Split the batch into at most `count` near-equal, non-empty parts; a padding sample is the only part."""
        if count == 1:
            return [self]
        count = min(count, self.samples)
        return [self.part(shard(self.samples, place, count)) for place in range(count)] or [self]


def even() -> None:
    """Return None, for equal shares."""


def shard(count: int, rank: int, world_size: int, shares: Sequence[int] | None = None) -> range:
    """Return a rank's positions among `count`: a contiguous slice, near-equal or in proportion to shares."""
    if shares is None:
        return range(count * rank // world_size, count * (rank + 1) // world_size)
    found = cuts(count, shares)
    return range(found[rank], found[rank + 1])


def cuts(count: int, shares: Sequence[int]) -> list[int]:
    """Return the boundaries, from 0 to `count`, that divide `count` positions among ranks in proportion to shares.

    Boundaries are rounded down, so equal shares give near-equal slices. Every rank gets a position if there are enough.
    Shares are at least 1.
    """
    whole, passed, found = sum(shares), 0, [0]
    for rank, share in enumerate(shares, 1):
        passed += share
        cut = count * passed // whole
        if count >= len(shares):
            cut = min(max(cut, found[-1] + 1), count - (len(shares) - rank))
        found.append(cut)
    return found


def rank_slices(
    count: int, batch_size: int, rank: int, world_size: int, shares: Callable[[], Sequence[int] | None] = even
) -> Iterator[tuple[range, int]]:
    """Yield this rank's positions in each global batch, and the size of that batch.

    A slice is empty if a short last batch has fewer samples than there are ranks. `shares` is called for each batch, so
    shares can change between batches.
    """
    for start in range(0, count, batch_size):
        size = min(batch_size, count - start)
        mine = shard(size, rank, world_size, shares())
        yield range(start + mine.start, start + mine.stop), size


def generator(seed: int, *purpose: int | str) -> torch.Generator:
    """Return an independent random generator for each purpose under one seed."""
    digest = hashlib.sha256(repr((seed, *purpose)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def epoch_order(count: int, seed: int, epoch: int) -> Tensor:
    """Return the order [count], int64, in which an epoch visits the samples; equal on all ranks."""
    return torch.randperm(count, generator=generator(seed, "order", epoch))
