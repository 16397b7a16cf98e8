"""Adam and AdamW on a CPU: torch's operations, applied block by block, with the same result.

torch applies each operation to a whole tensor, and so waits for memory each time. A block stays in the processor's
cache. Square roots of zero, frequent in embeddings of unread words, take MKL seven times as long and are avoided.

Algorithm: Kingma and Ba, Adam (2015); with decoupled decay Loshchilov and Hutter, AdamW (2019). The order of operations
is that of torch/optim/adam.py and adamw.py, `_single_tensor_adam` and `_single_tensor_adamw`.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

BLOCK = 2**15
"""Elements per block: five fp32 tensors of this size take 640 KB and fit a core's second-level cache."""
EPSILON = 1e-8
_SMALLEST = torch.finfo(torch.float32).tiny
"""Replaces zero before a square root is added to `EPSILON`: the root is far below the rounding error."""


class BlockwiseAdam(Optimizer):
    """Adam with betas 0.9 and 0.999 for fp32 parameters, or AdamW if `decoupled_decay` is not 0."""

    def __init__(self, params: Iterable[Tensor], lr: float, decoupled_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.999), "decoupled_decay": decoupled_decay})
        self._scratch = torch.empty(BLOCK)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override] # no program uses a closure
        """Update all parameters that have a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        step, (beta1, beta2), lr = float(state["step"]), group["betas"], group["lr"]
        rate = lr / (1 - beta1**step)
        correction = math.sqrt(1 - beta2**step)
        tensors = [parameter.detach(), gradient, state["exp_avg"], state["exp_avg_sq"]]
        in_blocks = [tensor.view(-1).split(BLOCK) for tensor in alike(tensors)]
        for values, slope, mean, square in zip(*in_blocks, strict=True):
            if group["decoupled_decay"]:
                values.mul_(1 - lr * group["decoupled_decay"])
            mean.lerp_(slope, 1 - beta1)
            square.mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
            root = self._scratch[: len(square)]
            torch.clamp_min(square, _SMALLEST, out=root).sqrt_().div_(correction).add_(EPSILON)
            values.addcdiv_(mean, root, value=-rate)


def pays(model: nn.Module) -> bool:
    """Return whether `BlockwiseAdam` is faster than torch's optimizer: for a model on a CPU, with one thread.

    Several threads would have to wait for each other at each operation on each block.
    """
    return next(model.parameters()).device.type == "cpu" and torch.get_num_threads() == 1


def alike(tensors: list[Tensor]) -> list[Tensor]:
    """Return views of equally shaped tensors, all with the memory order of the first tensor, which is dense.

    A gradient with another memory layout is copied.
    """
    first = tensors[0]
    order = sorted(range(first.dim()), key=lambda dim: (first.stride(dim), first.shape[dim]), reverse=True)
    found = [tensor.permute(order) for tensor in tensors]
    return [found[0], found[1].contiguous(), *found[2:]]
