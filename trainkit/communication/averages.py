"""Averages of parameters now and then: every rank trains a model of its own in between.

Local SGD: Stich, Local SGD Converges Fast and Communicates Little (2019). What the optimizers of the ranks remember
(momentum, Adam's moments) stays their own. torch's `PeriodicModelAverager` leaves BatchNorm's statistics out and gives
parameters another memory format.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn

from trainkit.communication.exchange import Exchange
from trainkit.run import Run


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
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # BatchNorm's running statistics; what counts its batches is the same on all ranks.
        self._averaged = trained + [buffer for buffer in model.buffers() if buffer.is_floating_point()]

    def stepped(self) -> None:
        """Note that the optimizer has taken a step, and average if it is time."""
        super().stepped()
        self._apart_steps += 1
        if self._apart_steps >= self._every:
            self.synchronise()

    @torch.no_grad()
    def synchronise(self) -> None:
        """Average the ranks' models, unless no rank has taken a step since the last time.

        All ranks count alike: their gradients are weighted by samples.
        """
        if not self._apart_steps:
            return
        self._apart_steps = 0
        with self._run.exchanging():
            means = torch.cat([tensor.reshape(-1) for tensor in self._averaged]).div_(self._run.world_size)
            self.traffic.reduced(means.nbytes)
            dist.all_reduce(means)
            parts = means.split([tensor.numel() for tensor in self._averaged])
            for tensor, mean in zip(self._averaged, parts, strict=True):
                tensor.copy_(mean.view(tensor.shape))

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
