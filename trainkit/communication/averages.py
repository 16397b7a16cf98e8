"""Exchanges of parameters now and then: every rank trains a model of its own in between.

Local SGD: Stich, Local SGD Converges Fast and Communicates Little (2019). DiLoCo: Douillard et al., DiLoCo: Distributed
Low-Communication Training of Language Models (2023), algorithm 1. What the optimizers of the ranks remember (momentum,
Adam's moments) stays their own, as in both papers.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import SGD

from trainkit.communication.exchange import Exchange
from trainkit.run import Run

GROUP_BYTES = 25 * 2**20
"""Of the parameters that are averaged by one operation, as the buckets of DistributedDataParallel."""


class LocalSgd(Exchange):
    """Averages the models of the ranks every so many steps."""

    name = "local-sgd"

    def __init__(self, run: Run, model: nn.Module, every: int) -> None:
        super().__init__(run)
        self.model = model
        self._every = every
        self._apart_steps = 0
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)  # all ranks start from rank 0's model
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # BatchNorm's running statistics; what counts its batches is the same on all ranks.
        self._buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]

    def stepped(self) -> None:
        """Note that the optimizer has taken a step, and average if it is time."""
        super().stepped()
        self._apart_steps += 1
        if self._apart_steps >= self._every:
            self.synchronise()

    @torch.no_grad()
    def synchronise(self) -> None:
        """Average the ranks' models, unless no rank has taken a step since the last time."""
        if not self._apart_steps:
            return
        self._apart_steps = 0
        with self._run.exchanging():
            means = self._means([*self._parameters, *self._buffers])
        self._take(means[: len(self._parameters)])
        for buffer, mean in zip(self._buffers, means[len(self._parameters) :], strict=True):
            buffer.copy_(mean)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let the steps in a block be followed by no average."""
        every, self._every = self._every, sys.maxsize
        try:
            yield
        finally:
            self._every = every

    def restart(self) -> None:
        """Forget all steps."""
        super().restart()
        self._apart_steps = 0

    def _take(self, means: list[Tensor]) -> None:
        """Go on from the means of the ranks' parameters."""
        for parameter, mean in zip(self._parameters, means, strict=True):
            parameter.copy_(mean)

    def _means(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return the mean of each tensor over all ranks, which count alike: their gradients are weighted by samples."""
        pending, parts = [], []
        for group in _groups(tensors):
            flat = torch.cat([tensor.reshape(-1) for tensor in group]).div_(self._run.world_size)
            self.traffic.reduced(flat.nbytes)
            pending.append(dist.all_reduce(flat, async_op=True))
            parts += flat.split([tensor.numel() for tensor in group])
        for work in pending:
            work.wait()
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


class DiLoCo(LocalSgd):
    """Takes what the mean of the models has moved as the gradient of an outer SGD with this rate and momentum."""

    name = "diloco"

    def __init__(self, run: Run, model: nn.Module, every: int, rate: float, momentum: float) -> None:
        super().__init__(run, model, every)
        self._rate, self._momentum = rate, momentum
        self._start_outer()

    def restart(self) -> None:
        """Forget all steps, the outer ones too: the model is what they start from."""
        super().restart()
        self._start_outer()

    def _start_outer(self) -> None:
        self._outer = [parameter.detach().clone() for parameter in self._parameters]
        self._sgd = SGD(self._outer, lr=self._rate, momentum=self._momentum, nesterov=self._momentum > 0)

    def _take(self, means: list[Tensor]) -> None:
        for outer, mean in zip(self._outer, means, strict=True):
            outer.grad = outer - mean
        self._sgd.step()
        self._sgd.zero_grad()
        for parameter, outer in zip(self._parameters, self._outer, strict=True):
            parameter.copy_(outer)


def _groups(tensors: list[Tensor]) -> list[list[Tensor]]:
    """Cut a list of tensors into groups of one type and about as many bytes each."""
    groups: list[list[Tensor]] = []
    room = 0
    for tensor in tensors:
        if not groups or room < tensor.nbytes or groups[-1][0].dtype != tensor.dtype:
            groups.append([])
            room = GROUP_BYTES
        groups[-1].append(tensor)
        room -= tensor.nbytes
    return groups
