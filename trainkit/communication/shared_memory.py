"""Means over the ranks of one machine, through memory that all of them see.

Gloo sends everything through the kernel, also to a process on the same machine. Here each rank writes its values once
and reads what the others wrote; only the signals that all have written go through the backend. So a rank that dies is
noticed as in any other exchange.
"""

import mmap
import os
import secrets
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from trainkit.distributed import barrier, total
from trainkit.errors import Refusal
from trainkit.run import Run

_LINE = 64
"""Bytes of a cache line, so that no two ranks write to the same one."""
_FEW = 3
"""Up to so many ranks each adds up all values; more share the work, for which they have to wait once more."""


class SharedMemory:
    """Room for the values of each rank.

    There are two of each, in turns: a rank may write its next values while others still read the ones before. It comes
    back to the first when all have given their next ones, and so have read the first.

    Args:
        run: joined, on a CPU; all ranks call it.
        capacity: bytes of the largest tensor that is averaged.

    Raises:
        Refusal: the ranks do not see each other's memory.
    """

    def __init__(self, run: Run, capacity: int) -> None:
        self._rank, self._ranks, self._turn = run.rank, run.world_size, 0
        row = -(-max(capacity, 1) // _LINE) * _LINE
        shared = _shared(2 * self._ranks * row, first=run.first)
        self._rows = torch.frombuffer(shared, dtype=torch.uint8).view(2, self._ranks, row)

    @torch.no_grad()
    def average(self, values: Tensor) -> None:
        """Replace values [n] by their mean over all ranks, on each the same to the last bit."""
        self._turn = 1 - self._turn
        rows = self._rows[self._turn, :, : values.nbytes].view(values.dtype)
        torch.mul(values, 1 / self._ranks, out=rows[self._rank])
        barrier()
        if self._ranks > _FEW:
            self._add_up_parts(rows, values)
        elif self._ranks > 1:
            torch.add(rows[0], rows[1], out=values)
            for other in rows[2:]:
                values.add_(other)

    def _add_up_parts(self, rows: Tensor, values: Tensor) -> None:
        """Add up this rank's part of the values where it lies, and read the parts of the others."""
        cuts = [values.numel() * rank // self._ranks for rank in range(self._ranks + 1)]
        parts = [slice(*cut) for cut in pairwise(cuts)]
        own = rows[self._rank, parts[self._rank]]
        for other in range(self._ranks):
            if other != self._rank:
                own.add_(rows[other, parts[self._rank]])
        barrier()
        for other, part in enumerate(parts):
            values[part] = rows[other, part]


def _shared(size: int, *, first: bool) -> mmap.mmap:
    """Return memory that all ranks see. It has no name, so that of a process that is killed nothing stays behind."""
    made, token = -1, secrets.randbits(48)
    with suppress(OSError):  # then the others have to hear of it too
        if first and hasattr(os, "memfd_create"):
            made = os.memfd_create(_name(token))
            os.ftruncate(made, size)
    told = torch.tensor([os.getpid(), made, token])
    dist.broadcast(told, src=0)
    owner, number, token = told.tolist()
    memory = None
    with suppress(OSError):
        path = Path(f"/proc/{owner}/fd/{number}")
        if _name(token) in str(path.readlink()):  # or it is another process of that number, on this machine
            with path.open("r+b", buffering=0) as file:
                memory = mmap.mmap(file.fileno(), size)
    [seen] = total(memory is not None)  # all ranks have opened it now, or failed
    if made >= 0:
        os.close(made)
    if memory is None or seen < dist.get_world_size():
        raise Refusal(
            f"--communication shared-memory: these processes do not see each other's memory, or have not {size:,} bytes"
            " for it: it is for those of one machine or container, on Linux: choose ddp"
        )
    return memory


def _name(token: int) -> str:
    return f"trainkit-{token}"
