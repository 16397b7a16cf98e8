"""Every sample once, whatever the number of processes."""

import torch
from hypothesis import given
from hypothesis import strategies as st

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
