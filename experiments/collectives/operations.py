"""The operations of `torch.distributed`, each on buffers of one shape, with its bandwidth factor.

Sizes and bandwidths are defined as in nccl-tests (https://github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the
algorithm bandwidth is the size over the time; the bus bandwidth is that times a factor that makes it comparable with
the hardware's speed for any number of ranks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from experiments.collectives.ring import exchange, ring_all_reduce
from trainkit import distributed
from trainkit.distributed import SENT

ELEMENT = torch.float32
ELEMENT_BYTES = 4


@dataclass
class Buffers:
    """One rank's input and output of an operation.

    `mine` [count] is the rank's part; `whole` and `spare` [ranks * count] hold a part per rank. For operations on a
    single part `spare` is [count] and `whole` is empty.
    """

    mine: Tensor
    whole: Tensor
    spare: Tensor
    parts: list[Tensor] = field(init=False)
    spare_parts: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        """Split the parts, and keep all tensors until the process group is destroyed (see SENT)."""
        ranks = dist.get_world_size()
        self.parts = list(self.whole.chunk(ranks))
        self.spare_parts = list(self.spare.chunk(ranks))
        SENT.extend([self.mine, self.whole, self.spare, *self.parts, *self.spare_parts])


def ping_pong(buffers: Buffers) -> None:
    """Send from rank 0 to rank 1 and back; other ranks do nothing."""
    rank = dist.get_rank()
    if rank == 0:
        dist.send(buffers.mine, dst=1)
        dist.recv(buffers.mine, src=1)
    elif rank == 1:
        dist.recv(buffers.mine, src=0)
        dist.send(buffers.mine, dst=0)


def root(parts: list[Tensor]) -> list[Tensor] | None:
    """Return the parts on rank 0 and None elsewhere, as operations with a root require."""
    return parts if dist.get_rank() == 0 else None


def all_but_own(ranks: int) -> float:
    """Return the bus factor (n - 1) / n: a rank already has its part of the total."""
    return (ranks - 1) / ranks


def there_and_back(ranks: int) -> float:
    """Return the bus factor of all_reduce (reduce_scatter, then all_gather): 2 (n - 1) / n."""
    return 2 * (ranks - 1) / ranks


@dataclass(frozen=True)
class Operation:
    """One operation: `bus` is its factor for n ranks, and with `in_parts` its size is that of all parts."""

    call: Callable[[Buffers], object]
    bus: Callable[[int], float] = lambda ranks: float(ranks > 1)  # every byte crosses the slowest link once
    in_parts: bool = False
    least_ranks: int = 1
    trips: int = 1
    """Trips of the data in one call; times are per trip."""


OPERATIONS = {
    "send": Operation(ping_pong, least_ranks=2, trips=2),
    # Each rank sends to the next while receiving from the previous one.
    "isend": Operation(lambda own: exchange(own.mine, own.spare), least_ranks=2),
    "broadcast": Operation(lambda own: dist.broadcast(own.mine, src=0)),
    "scatter": Operation(lambda own: dist.scatter(own.mine, root(own.parts)), all_but_own, in_parts=True),
    "gather": Operation(lambda own: dist.gather(own.mine, root(own.parts)), all_but_own, in_parts=True),
    "reduce": Operation(lambda own: dist.reduce(own.mine, dst=0)),  # results on other ranks are undefined
    "all_gather": Operation(lambda own: dist.all_gather(own.parts, own.mine), all_but_own, in_parts=True),
    "all_gather_into_tensor": Operation(
        lambda own: dist.all_gather_into_tensor(own.whole, own.mine), all_but_own, in_parts=True
    ),
    "all_reduce": Operation(lambda own: dist.all_reduce(own.mine), there_and_back),
    "ring_all_reduce": Operation(lambda own: ring_all_reduce(own.mine, own.spare), there_and_back, least_ranks=2),
    "reduce_scatter": Operation(lambda own: dist.reduce_scatter(own.mine, own.parts), all_but_own, in_parts=True),
    "reduce_scatter_tensor": Operation(
        lambda own: dist.reduce_scatter_tensor(own.mine, own.whole), all_but_own, in_parts=True
    ),
    "all_to_all": Operation(lambda own: dist.all_to_all(own.spare_parts, own.parts), all_but_own, in_parts=True),
    "all_to_all_single": Operation(
        lambda own: dist.all_to_all_single(own.spare, own.whole), all_but_own, in_parts=True
    ),
    "barrier": Operation(lambda _: distributed.barrier()),
}
"""Operations by their names in `torch.distributed`; `ring_all_reduce` is the kit's."""


def cut(operation: Operation, size: int, arenas: list[Tensor], ranks: int) -> tuple[Buffers, int]:
    """Return an operation's buffers, cut from two arenas of bytes, and their actual size in bytes.

    The size is rounded down to float32 numbers in equal parts, but each part has at least one.
    """
    mine, spare = (arena[: arena.numel() // ELEMENT_BYTES * ELEMENT_BYTES].view(ELEMENT) for arena in arenas)
    if not operation.in_parts:
        count = size // ELEMENT_BYTES
        return Buffers(mine[:count], spare[:0], spare[:count]), count * ELEMENT_BYTES
    count = max(1, size // ELEMENT_BYTES // ranks)
    total = count * ranks
    return Buffers(mine[:count], spare[:total], mine[:total]), total * ELEMENT_BYTES
