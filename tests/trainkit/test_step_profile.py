"""What a step is made of: buckets as DistributedDataParallel has them, and what a program reports."""

from argparse import Namespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from trainkit.run import Run
from trainkit.sharding import Batch
from trainkit.step_profile import BUCKET, FIRST_BUCKET, MOST_LISTED, buckets, profile, report_step, shortened

MB = 2**20


@given(st.lists(st.tuples(st.integers(1, 60 * MB), st.floats(0, 1)), min_size=1, max_size=60))
def test_every_gradient_is_in_one_bucket_and_each_is_closed_when_full(gradients: list[tuple[int, float]]) -> None:
    found = buckets(gradients)
    assert sum(size for size, _ in found) == sum(size for size, _ in gradients)
    for place, (size, _) in enumerate(found[:-1]):
        assert size >= (BUCKET if place else FIRST_BUCKET)
    short = shortened(found)
    assert len(short) <= MOST_LISTED
    assert sum(row[0] for row in short) == sum(size for size, _ in found)
    assert sum(row[2] for row in short) == len(found)


def test_the_buckets_are_those_of_ddp() -> None:
    sizes = [MB // 2, MB // 2, 10 * MB, 10 * MB, 10 * MB, 3 * MB]
    shares = [0.1, 0.2, 0.3, 0.4, 0.5, 1.0]
    assert buckets(list(zip(sizes, shares, strict=True))) == [(MB, 0.2), (30 * MB, 0.5), (3 * MB, 1.0)]


def test_a_watched_step_leaves_no_hook_behind_and_sees_the_gradients_in_their_order() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    seen = profile(torch.device("cpu"), model, lambda: model(torch.randn(16, 64)).sum().backward())
    assert {size for size, _ in seen.gradients[:2]} == {4 * 64 * 8, 4 * 8}  # the last layer's come first
    assert [share for _, share in seen.gradients] == sorted(share for _, share in seen.gradients)
    assert seen.gradients[-1][1] == 1.0
    assert 0 < seen.forward_share + seen.backward_share <= 1
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        profile(torch.device("cpu"), model, lambda: model(torch.randn(3, 3)))
    assert not model._forward_hooks
    assert all(not parameter._post_accumulate_grad_hooks for parameter in model.parameters())


def test_a_batch_in_parts_counts_each_gradient_once() -> None:
    model = nn.Linear(32, 8)

    def step() -> None:
        for _ in range(3):
            model(torch.randn(16, 32)).sum().backward()

    assert len(profile(torch.device("cpu"), model, step).gradients) == 2


def test_a_batch_of_one_sample_is_not_profiled() -> None:
    run = Run("mnist.single", Namespace(device="cpu", threads=1, backend="gloo"))
    report_step(run, nn.Linear(2, 2), lambda _: pytest.fail("a step was taken"), Batch(torch.ones(1), 1, 1))
