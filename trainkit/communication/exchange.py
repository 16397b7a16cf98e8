"""The interface of all exchanges, and the count of the bytes they move."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainkit.errors import Refusal, one_line
from trainkit.run import Run

Any_Part = TypeVar("Any_Part")


@dataclass
class Traffic:
    """The data that this rank passes to collective operations, and the optimizer's steps."""

    reduced_bytes: float = 0
    broadcast_bytes: float = 0
    """Bytes of rank 0's buffers."""
    exchanges: float = 0
    """Number of collective operations."""
    steps: int = 0

    def reduced(self, count: float) -> None:
        """Count bytes that are summed over the ranks."""
        self.reduced_bytes += count
        self.exchanges += 1

    def per_step(self, world_size: int) -> dict[str, float]:
        """Return the means per step.

        `moved_bytes` is what all ranks send if sums go around a ring, as Gloo's do, where each rank sends 2(n-1)/n of
        the bytes; a tree, which NCCL may choose, moves about as many. `sent_bytes` is the share of one rank.
        """
        steps = max(self.steps, 1)
        moved = (2 * (world_size - 1) * self.reduced_bytes + (world_size - 1) * self.broadcast_bytes) / steps
        return {
            "reduced_bytes": self.reduced_bytes / steps,
            "broadcast_bytes": self.broadcast_bytes / steps,
            "exchanges": self.exchanges / steps,
            "moved_bytes": moved,
            "sent_bytes": moved / world_size,
        }


class Exchange:
    """How the ranks of a joined run arrive at one model; a base class."""

    name: str
    """The value of `--communication`."""
    model: nn.Module
    """The module that a training step calls for its forward pass."""

    def __init__(self, run: Run) -> None:
        self.traffic = Traffic()
        self._run = run

    def accumulated(self, parts: Sequence[Any_Part]) -> Iterator[Any_Part]:
        """Yield the parts of a rank's batch; only the backward pass of the last part exchanges gradients.

        Run the forward and backward pass of each part inside the loop.
        """
        for number, part in enumerate(parts, 1):
            with nullcontext() if number == len(parts) else self._apart():
                yield part

    def stepped(self) -> None:
        """Count a step of the optimizer; all ranks must call it."""
        self.traffic.steps += 1

    def synchronise(self) -> None:
        """Make the ranks' models equal if they differ; all ranks must call it at the end of an epoch."""

    def restart(self) -> None:
        """Reset all counts, after all ranks have undone their steps and have one model again."""
        self.traffic = Traffic()

    def synchronised(self, step: Callable[[Any_Part], Tensor]) -> Callable[[Any_Part], Tensor]:
        """Return a step that also makes the ranks' models equal."""

        def step_and_synchronise(batch: Any_Part) -> Tensor:
            losses = step(batch)
            self.synchronise()
            return losses

        return step_and_synchronise

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Exchange nothing in the steps of a block, so that each rank can take any number of steps.

        Afterwards the ranks have different models; undo the steps and call `restart`.
        """
        yield

    def report(self) -> None:
        """Report the mean bytes per step (event `communication`, metric `communicated_bytes`), from rank 0 only."""
        if self._run.first:
            traffic = self.traffic
            mean = {name: round(count, 1) for name, count in traffic.per_step(self._run.world_size).items()}
            self._run.log.point("communication", self.name, **mean, steps=traffic.steps)
            stats = {"communicated_bytes": mean["sent_bytes"], "bytes_moved_per_step": mean["moved_bytes"]}
            self._run.log.point("tracked_stats", stats)

    def _apart(self) -> AbstractContextManager[Any]:
        return nullcontext()


def require_type(run: Run, dtype: torch.dtype, wanted_by: str) -> None:
    """Raise Refusal if the backend cannot sum tensors of this type; all ranks must call it."""
    probe = torch.zeros(1, dtype=dtype, device=run.device)
    try:
        dist.all_reduce(probe)
    except RuntimeError as error:
        name = str(dtype).removeprefix("torch.")
        raise Refusal(
            f"--communication {wanted_by}: the {run.backend} backend of torch {torch.__version__} cannot sum {name}"
            f" ({one_line(error)[:200]}): choose ddp"
        ) from None
