"""Run each operation on values small enough to read, and check the result.

Each rank r of n starts with [1 + 2r, 2 + 2r], as in `collectives-tutorial` and in the documentation of
torch.distributed; for operations on a part per rank, `given` defines part p of rank r.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from experiments.collectives.operations import OPERATIONS, Buffers
from trainkit.distributed import SENT
from trainkit.errors import Refusal

PAIR = torch.arange(2)


@dataclass
class Lesson:
    """A rank's values before and after an operation, and the expected ones (None: undefined)."""

    before: list[int]
    after: list[int]
    expected: list[int] | None


def teach(name: str, device: torch.device) -> Lesson:
    """Run one operation on these values; Refusal if there are too few ranks, RuntimeError if the result is wrong."""
    least = OPERATIONS[name].least_ranks
    if dist.get_world_size() < least:
        raise Refusal(f"it needs {least} ranks and there is {dist.get_world_size()}")
    lesson = point_to_point(device) if name == "send" else collective(name, device)
    if lesson.expected is not None and lesson.after != lesson.expected:
        raise RuntimeError(f"{name} gave {lesson.after} on rank {dist.get_rank()} instead of {lesson.expected}")
    return lesson


def point_to_point(device: torch.device) -> Lesson:
    """Send 1 from rank 0 to rank 1, which adds 1 and sends it back; other ranks keep 0."""
    rank = dist.get_rank()
    tensor = torch.zeros(1, dtype=torch.int64, device=device)
    SENT.append(tensor)
    if rank == 0:
        tensor += 1
        dist.send(tensor, dst=1)
        dist.recv(tensor, src=1)
    elif rank == 1:
        dist.recv(tensor, src=0)
        tensor += 1
        dist.send(tensor, dst=0)
    return Lesson([0], tensor.tolist(), [2 if rank < 2 else 0])  # ranks 0 and 1


def collective(name: str, device: torch.device) -> Lesson:
    """Run an operation other than send and recv."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine, whole = given(name, rank, ranks)
    alone = not OPERATIONS[name].in_parts
    buffers = Buffers(mine.to(device), whole.to(device), torch.zeros_like(mine if alone else whole, device=device))
    before = given_by(name, buffers, rank)
    OPERATIONS[name].call(buffers)
    return Lesson(before, taken_by(name, buffers, rank), expected(name, rank, ranks))


def own(rank: int) -> Tensor:
    """Return [1 + 2r, 2 + 2r]."""
    return PAIR + 1 + 2 * rank


def given(name: str, rank: int, ranks: int) -> tuple[Tensor, Tensor]:
    """Return a rank's own part [2] and its parts for all ranks [2n], int64, before an operation."""
    whole = torch.zeros(2 * ranks, dtype=torch.int64)
    if name == "scatter" and rank == 0:
        whole = torch.arange(ranks).repeat_interleave(2)
    elif name.startswith("reduce_scatter"):
        whole = torch.arange(2 * ranks) + 1 + 2 * rank
    elif name.startswith("all_to_all"):
        whole = torch.arange(2 * ranks) + 2 * ranks * rank
    return own(rank), whole


def given_by(name: str, buffers: Buffers, rank: int) -> list[int]:
    """Return the values that a rank passes to an operation."""
    from_whole = name.startswith(("reduce_scatter", "all_to_all")) or (name == "scatter" and rank == 0)
    return list((buffers.whole if from_whole else buffers.mine).tolist())


def taken_by(name: str, buffers: Buffers, rank: int) -> list[int]:
    """Return the values that a rank receives from an operation."""
    if name.startswith("all_to_all") or name == "isend":
        return list(buffers.spare.tolist())
    into_whole = name.startswith("all_gather") or (name == "gather" and rank == 0)
    return list((buffers.whole if into_whole else buffers.mine).tolist())


def expected(name: str, rank: int, ranks: int) -> list[int] | None:
    """Return the values that a rank must have after an operation; None if they are undefined."""
    everyone = torch.stack([own(other) for other in range(ranks)])
    if name == "isend":
        result = own((rank - 1) % ranks)
    elif name == "broadcast":
        result = own(0)
    elif name == "scatter":
        result = torch.tensor([rank, rank])
    elif name.startswith("all_gather") or (name == "gather" and rank == 0):
        result = everyone.flatten()
    elif name in ("all_reduce", "ring_all_reduce") or (name == "reduce" and rank == 0):
        result = everyone.sum(0)
    elif name.startswith("reduce_scatter"):
        result = sum(PAIR + 2 * rank + 1 + 2 * other for other in range(ranks))  # type: ignore[assignment]
    elif name.startswith("all_to_all"):
        result = torch.cat([PAIR + 2 * ranks * other + 2 * rank for other in range(ranks)])
    elif name == "reduce":
        return None
    else:
        result = own(rank)
    return list(result.tolist())
