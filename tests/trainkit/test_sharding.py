"""Sharding: every sample once, for any world size."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from trainkit import sharding as shards


@given(st.integers(1, 500), st.integers(1, 600), st.integers(1, 12))
def test_the_ranks_slices_are_the_global_batches(count: int, size: int, world: int) -> None:
    seen: list[int] = []
    for step in zip(*(shards.rank_slices(count, size, rank, world) for rank in range(world)), strict=True):
        batch = [position for part, _ in step for position in part]
        sizes = [len(part) for part, _ in step]
        assert {size for _, size in step} == {len(batch)}
        assert max(sizes) - min(sizes) <= 1
        assert all(part.start < count for part, _ in step)  # a padding sample exists
        seen += batch
    assert seen == list(range(count))


def test_the_order_of_an_epoch_depends_on_seed_and_number() -> None:
    first = shards.epoch_order(1438, seed=1, epoch=1)
    assert sorted(first.tolist()) == list(range(1438))
    for seed, epoch in ((1, 1), (1, 2), (2, 1)):
        assert torch.equal(first, shards.epoch_order(1438, seed, epoch)) == (seed == epoch == 1)
