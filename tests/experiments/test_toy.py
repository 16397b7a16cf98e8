"""The toy: small enough to be computed again, here, on one process."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from tests.experiments.conftest import good
from trainkit import sharding as shards

Launch = Callable[..., Any]
STEPS = 5


def on_one_process(ranks: int) -> list[float]:
    """The losses of each rank's own samples before the last step, had one process trained on all of them."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    noise = [shards.generator(1, "noise", rank) for rank in range(ranks)]
    data = [(torch.randn(20, 10, generator=own), torch.randn(20, 5, generator=own)) for own in noise]
    for _ in range(STEPS):
        losses = [mse_loss(model(inputs), labels) for inputs, labels in data]
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        optimizer.step()
    return [loss.item() for loss in losses]


@pytest.mark.parametrize("world", [None, 3])
def test_all_processes_learn_what_one_would(plain: Launch, world: int | None) -> None:
    ended = good(plain("toy.ddp", world, "--steps", str(STEPS), "--lr", "0.05"))
    ranks = world or 1
    expected = on_one_process(ranks)
    assert ended.values("loss") == pytest.approx(expected, rel=1e-4)
    assert ended.stats["final_loss"] == pytest.approx(sum(expected) / ranks, rel=1e-4)
    assert len(set(ended.values("parameters"))) == 1
    assert ended.first("epoch_stop")["metadata"]["trained_samples"] == 20 * STEPS * ranks
    assert ended.stderr.count(", local rank ") == ranks
