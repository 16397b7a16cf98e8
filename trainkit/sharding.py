"""Who gets which sample: the one sharding rule of all programs.

Each epoch has one order of all samples, drawn from (seed, epoch) and so the same on every rank. The global batch k is
``order[k * B : (k + 1) * B]``; the last one may be short and is kept. Each rank takes a contiguous, near-equal slice of
every global batch. So an epoch sees each sample exactly once at any number of processes: nothing is padded, repeated or
dropped (torch's `DistributedSampler` repeats samples until the count divides by the number of processes).

With shares (`trainkit.balance`) the slices are as long as the shares say; which samples a global batch has, and in
which order, does not depend on them.
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
    """A rank's part of one global batch; a family adds its inputs, as tensors with a row for each sample.

    A rank whose part is empty holds one sample as a stand-in, so that it takes part in the step, and `samples` is 0:
    only the first `samples` losses count.
    """

    labels: Tensor
    """[n], int64."""
    samples: int
    global_samples: int

    def part(self, rows: range) -> Self:
        """Return the samples at these positions."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        changes: dict[str, Any] = {name: value[rows.start : rows.stop] for name, value in tensors.items()}
        return replace(self, samples=len(rows), **changes)

    def parts(self, count: int) -> list[Self]:
        """Cut the batch into at most so many near-equal parts, none of them empty; a stand-in is the only part."""
        if count == 1:
            return [self]
        count = min(count, self.samples)
        return [self.part(shard(self.samples, place, count)) for place in range(count)] or [self]


def even() -> None:
    """Return the shares of ranks that are alike: None."""


def shard(count: int, rank: int, world_size: int, shares: Sequence[int] | None = None) -> range:
    """Return the positions, out of `count`, that belong to `rank`: contiguous, near-equal or by shares."""
    if shares is None:
        return range(count * rank // world_size, count * (rank + 1) // world_size)
    found = cuts(count, shares)
    return range(found[rank], found[rank + 1])


def cuts(count: int, shares: Sequence[int]) -> list[int]:
    """Return where `count` positions are cut, from 0 to `count`, so that each rank gets its share of them.

    Each cut is rounded down, so equal shares give near-equal slices. Every rank gets a position if there are enough.

    Args:
        count: positions.
        shares: of each rank, at least 1.
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
    """Yield this rank's positions in each global batch, and that batch's size.

    A slice is empty if a short last batch has fewer samples than there are ranks. The shares are asked for when a slice
    is, so they can change from one batch to the next.
    """
    for start in range(0, count, batch_size):
        size = min(batch_size, count - start)
        mine = shard(size, rank, world_size, shares())
        yield range(start + mine.start, start + mine.stop), size


def generator(seed: int, *purpose: int | str) -> torch.Generator:
    """Return a random generator of its own for each purpose under one seed."""
    digest = hashlib.sha256(repr((seed, *purpose)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def epoch_order(count: int, seed: int, epoch: int) -> Tensor:
    """Return the order [count] in which an epoch visits the samples, equal on all ranks."""
    return torch.randperm(count, generator=generator(seed, "order", epoch))
