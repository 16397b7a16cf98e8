"""What every exchange does for a program, and the bytes that it counts."""

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
    """What this rank has handed to collective operations since the training began, and the optimizer's steps."""

    reduced_bytes: float = 0
    broadcast_bytes: float = 0
    """Of rank 0's buffers."""
    exchanges: float = 0
    """How many operations that were."""
    steps: int = 0

    def reduced(self, count: float) -> None:
        """Count bytes that are added up over the ranks."""
        self.reduced_bytes += count
        self.exchanges += 1

    def per_step(self, world_size: int) -> dict[str, float]:
        """Return the mean of a step.

        `moved_bytes` are those that all ranks send if sums go around a ring, as Gloo's do, in which each rank sends
        2(n-1)/n of them; a tree, which NCCL may choose, has about as many. `sent_bytes` are those of one rank.
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
    """How the ranks of a training come to one model. The run is joined, and the model is on its device."""

    name: str
    """As `--communication` has it."""
    model: nn.Module
    """What the forward pass of a training step calls."""

    def __init__(self, run: Run) -> None:
        self.traffic = Traffic()
        self._run = run

    def accumulated(self, parts: Sequence[Any_Part]) -> Iterator[Any_Part]:
        """Yield the parts of a rank's batch; only the backward pass of the last one exchanges gradients.

        The forward and the backward pass of a part belong into the loop.
        """
        for number, part in enumerate(parts, 1):
            with nullcontext() if number == len(parts) else self._apart():
                yield part

    def stepped(self) -> None:
        """Note that the optimizer has taken a step; called by all ranks."""
        self.traffic.steps += 1

    def synchronise(self) -> None:
        """Bring the ranks to one model if they have different ones; called by all ranks, at the end of an epoch."""

    def restart(self) -> None:
        """Forget all steps; called by all ranks when they have undone them, and have one model."""
        self.traffic = Traffic()

    def synchronised(self, step: Callable[[Any_Part], Tensor]) -> Callable[[Any_Part], Tensor]:
        """Return a step after which the ranks have one model."""

        def step_and_synchronise(batch: Any_Part) -> Tensor:
            losses = step(batch)
            self.synchronise()
            return losses

        return step_and_synchronise

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let the steps in a block exchange nothing; after it the ranks have different models, which `restart` forgets.

        So each rank can take as many as it likes.
        """
        yield

    def report(self) -> None:
        """Report the mean bytes of a step (event `communication`, metric `communicated_bytes`), from rank 0."""
        if self._run.first:
            traffic = self.traffic
            mean = {name: round(count, 1) for name, count in traffic.per_step(self._run.world_size).items()}
            self._run.log.point("communication", self.name, **mean, steps=traffic.steps)
            stats = {"communicated_bytes": mean["sent_bytes"], "bytes_moved_per_step": mean["moved_bytes"]}
            self._run.log.point("tracked_stats", stats)

    def _apart(self) -> AbstractContextManager[Any]:
        """Return the context in which a backward pass exchanges nothing."""
        return nullcontext()


def require_type(run: Run, dtype: torch.dtype, wanted_by: str) -> None:
    """Refuse if the backend cannot add up numbers of this type; all ranks call it."""
    probe = torch.zeros(1, dtype=dtype, device=run.device)
    try:
        dist.all_reduce(probe)
    except RuntimeError as error:
        name = str(dtype).removeprefix("torch.")
        raise Refusal(
            f"--communication {wanted_by}: the {run.backend} backend of torch {torch.__version__} cannot add up {name}"
            f" ({one_line(error)[:200]}): choose ddp"
        ) from None
