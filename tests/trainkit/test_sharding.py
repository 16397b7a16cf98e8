"""Every sample once, whatever the number of processes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DistributedSampler

from trainkit import sharding as shards


@given(st.integers(1, 500), st.integers(1, 600), st.integers(1, 12))
def test_the_ranks_slices_are_the_global_batches(count: int, size: int, world: int) -> None:
    per_rank = [list(shards.rank_slices(count, size, rank, world)) for rank in range(world)]
    seen: list[int] = []
    for step in zip(*per_rank, strict=True):
        batch = [position for part, _ in step for position in part]
        sizes = [len(part) for part, _ in step]
        assert {told for _, told in step} == {len(batch)}
        assert max(sizes) - min(sizes) <= 1
        assert all(part.start < count for part, _ in step)  # a stand-in can be found
        seen += batch
    assert seen == list(range(count))


def test_an_epoch_has_one_order_of_its_own_on_all_ranks() -> None:
    first = shards.epoch_order(1438, seed=1, epoch=1)
    assert torch.equal(first, shards.epoch_order(1438, seed=1, epoch=1))
    assert sorted(first.tolist()) == list(range(1438))
    assert not torch.equal(first, shards.epoch_order(1438, seed=1, epoch=2))
    assert not torch.equal(first, shards.epoch_order(1438, seed=2, epoch=1))


@pytest.mark.parametrize("world", [2, 3, 5])
def test_distributed_sampler_would_count_padded_duplicates(world: int) -> None:
    test_set = range(359)
    theirs = [
        index
        for rank in range(world)
        for index in DistributedSampler(test_set, world, rank, shuffle=False)  # type: ignore[arg-type, var-annotated]
    ]
    ours = [index for rank in range(world) for index in shards.shard(359, rank, world)]
    assert len(theirs) == 360 > len(set(theirs)) == 359
    assert ours == list(test_set)
