"""Blockwise Adam is torch's Adam to the last bit."""

import pytest
import torch
from torch import Tensor, nn

from trainkit.blockwise_adam import BLOCK, BlockwiseAdam


def parameters() -> list[nn.Parameter]:
    """Return a matrix of several blocks, an embedding, a channels-last convolution and a number."""
    torch.manual_seed(3)
    last = torch.randn(20, 3, 3, 3).contiguous(memory_format=torch.channels_last)
    values = [torch.randn(BLOCK // 100, 250), torch.randn(600, 64), last, torch.tensor(2.0)]
    return [nn.Parameter(value) for value in values]


def gradients(step: int) -> list[Tensor]:
    """Return gradients, for the embedding zero in most rows, for the convolution in another memory format."""
    torch.manual_seed(step)
    found = [torch.randn(parameter.shape) * 10.0 ** -(step % 9) for parameter in parameters()]
    found[1] *= torch.rand(600, 1) > 0.99
    return found


@pytest.mark.slow
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_parameters_and_state_are_those_of_torch(decay: float) -> None:
    ours, theirs = parameters(), parameters()
    optimizer = BlockwiseAdam(ours, lr=1e-2, decoupled_decay=decay)
    known = torch.optim.AdamW(theirs, lr=1e-2, weight_decay=decay, foreach=False)
    for step in range(10):
        for own, other, gradient in zip(ours, theirs, gradients(step), strict=True):
            own.grad, other.grad = gradient.clone(), gradient.clone()
        optimizer.step()
        known.step()
    for own, other in zip(ours, theirs, strict=True):
        assert torch.equal(own, other)
        for name in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(optimizer.state[own][name], known.state[other][name])
