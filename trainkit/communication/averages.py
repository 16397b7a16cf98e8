"""Local SGD: each rank trains its own model, and the models are averaged at intervals.

Source: Stich, Local SGD Converges Fast and Communicates Little (2019). Optimizer states (momentum, Adam's moments) are
not averaged. torch's `PeriodicModelAverager` omits BatchNorm's statistics and changes the parameters' memory format.
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
    """Averages the ranks' models every so many steps."""

    name = "local-sgd"

    def __init__(self, run: Run, model: nn.Module, every: int) -> None:
        super().__init__(run)
        self.model = model
        self._every = every
        self._apart_steps = 0
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)  # all ranks start from rank 0's model
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # BatchNorm's running statistics; its count of batches is the same on all ranks.
        self._averaged = trained + [buffer for buffer in model.buffers() if buffer.is_floating_point()]

    def stepped(self) -> None:
        """Count a step of the optimizer, and average the models if it is time."""
        super().stepped()
        self._apart_steps += 1
        if self._apart_steps >= self._every:
            self.synchronise()

    @torch.no_grad()
    def synchronise(self) -> None:
        """Average the ranks' models, unless no step was taken since the last average.

        All ranks count the same steps, and their gradients are weighted by samples.
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
        """Take no average within a block."""
        every, self._every = self._every, sys.maxsize
        try:
            yield
        finally:
            self._every = every

    def restart(self) -> None:
        """Reset the counts of steps and traffic."""
        super().restart()
        self._apart_steps = 0
