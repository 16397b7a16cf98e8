"""The rank of this process, the process group, and collective operations.

Ranks come from torchrun's environment variables; without them there is one process. All functions also work without a
process group, and then exchange nothing.
"""

import hashlib
import os
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainkit.errors import Refusal

SENT: deque[Tensor] = deque(maxlen=1024)
"""The tensors exchanged last. Gloo's threads release their references a moment after an exchange ends. If this were the
last reference, the thread would need Python's lock, which `destroy_process_group` holds while it waits for the thread:
the process would never end (torch 2.3)."""
_own_gpu = {"index": 0}


@dataclass(frozen=True)
class Place:
    """The rank of this process and the sizes of its group, in torchrun's terms."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0

    @classmethod
    def from_environment(cls) -> "Place":
        """Read torchrun's environment variables; without them, return the place of a single process.

        A process that was started by a framework may know only its local rank; then there is one node.
        """
        try:
            return cls(
                rank=int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK", "0")),
                world_size=int(os.environ.get("WORLD_SIZE", "1")),
                local_rank=int(os.environ.get("LOCAL_RANK", "0")),
                local_world_size=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
                node_rank=int(os.environ.get("GROUP_RANK", "0")),
            )
        except ValueError as error:
            raise Refusal(
                f"RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and GROUP_RANK must be whole numbers: {error}"
            ) from None

    @classmethod
    def of_process(cls) -> "Place":
        """Read torchrun's environment variables, or else the process group if this process has joined a group.

        Processes that a script started itself are on one node unless the environment says otherwise.
        """
        place = cls.from_environment()
        if not dist.is_initialized() or (place.world_size > 1 and os.environ.get("RANK")):
            return place
        rank, world_size = dist.get_rank(), dist.get_world_size()
        if place.world_size > 1:
            return replace(place, rank=rank, world_size=world_size)
        return cls(rank, world_size, local_rank=rank, local_world_size=world_size)


def choose_device(name: str, place: Place) -> torch.device:
    """Return the CPU, or the GPU whose index is this process's local rank."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    return torch.device("cuda", place.local_rank)


def choose_backend(name: str, device: torch.device) -> str:
    """Return the named backend, or for `auto` NCCL between GPUs and Gloo between CPUs."""
    if name == "auto":
        return "nccl" if device.type == "cuda" else "gloo"
    return name


def join_process_group(backend: str, place: Place, device: torch.device) -> None:
    """Set up the process group; returns when all processes have joined."""
    if backend == "nccl" and device.type == "cpu":
        raise Refusal("the nccl backend needs GPUs and this run is on the CPU: use --backend gloo")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if "MASTER_ADDR" in os.environ:
        dist.init_process_group(backend, rank=place.rank, world_size=place.world_size)
    else:
        alone = dist.HashStore()  # type: ignore[attr-defined, no-untyped-call]
        dist.init_process_group(backend, store=alone, rank=0, world_size=1)


def barrier() -> None:
    """Wait for all ranks."""
    if not dist.is_initialized():
        return
    backends = _backends()
    if "cpu" not in backends:
        dist.barrier(device_ids=[_gpu()])
    elif len(set(backends.values())) == 1:
        dist.barrier()
    else:  # torch would choose one of the backends, and guess the GPU for NCCL
        total(0)


def device_of_messages() -> torch.device:
    """Return the device for messages: the CPU, or the GPU if NCCL is the only backend."""
    on_gpu = "cpu" not in _backends()
    return torch.device("cuda", _gpu()) if on_gpu else torch.device("cpu")


def use_gpu(device: torch.device) -> None:
    """Set the GPU for NCCL messages if the script has chosen none; two ranks on one GPU would wait forever."""
    _own_gpu["index"] = device.index or 0


def _gpu() -> int:
    """Return the GPU chosen by `torch.cuda.set_device`, or this process's default."""
    return torch.cuda.current_device() or _own_gpu["index"]


def _backends() -> dict[str, str]:
    """Return the backend of each device type; a framework's group may have several."""
    words = str(dist.get_backend_config()).split(",")
    return {device: backend for device, _, backend in (word.partition(":") for word in words)}


def total(*amounts: float | Tensor) -> list[float]:
    """Return the sum of each amount over all ranks, in float64."""
    return _reduced([float(amount) for amount in amounts], dist.ReduceOp.SUM)


def largest(amounts: Sequence[float]) -> list[float]:
    """Return the maximum of each amount over all ranks, in float64; all ranks pass equally many."""
    return _reduced(amounts, dist.ReduceOp.MAX)


def _reduced(amounts: Sequence[float], how: Any) -> list[float]:
    values = torch.tensor(amounts, dtype=torch.float64)
    if dist.is_initialized():
        values = values.to(device_of_messages())
        SENT.append(values)
        dist.all_reduce(values, how)
    found: list[float] = values.tolist()
    return found


def gathered(numbers: Sequence[int]) -> list[list[int]]:
    """Return the integers of each rank, by rank; all ranks pass equally many."""
    mine = torch.tensor(numbers, device=device_of_messages())
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    SENT.extend([mine, *everyone])
    dist.all_gather(everyone, mine)
    return [theirs.tolist() for theirs in everyone]


def require_equal(what: str, sha256: str) -> None:
    """Raise RuntimeError if the ranks' SHA-256 hashes of `what` differ."""
    if not dist.is_initialized():
        return
    everyone = gathered(list(bytes.fromhex(sha256)))
    others = [rank for rank, theirs in enumerate(everyone) if theirs != everyone[0]]
    if others:
        ranks = ", ".join(map(str, others))
        raise RuntimeError(f"{what} of rank {ranks} differ from those of rank 0")


def share_buffers(model: nn.Module) -> None:
    """Copy rank 0's buffers (BatchNorm's running statistics) to all ranks, as DDP does.

    Otherwise each rank would test a different model.
    """
    if dist.is_initialized():
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)


def fingerprint(tensors: Sequence[Tensor]) -> str:
    """Return the SHA-256 of the bytes of all tensors, in order."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def wait_for_neighbours(place: Place) -> None:
    """Wait until all processes of this node are about to leave, for at most 30 s.

    When a process fails, torchrun ends the node's other processes before they have printed everything. The processes
    meet at an abstract socket (a name without a file), named after torchrun's process id.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ or place.local_world_size == 1:
        return  # not started by torchrun, so nothing ends this process
    name = f"\0leaving-{os.getppid()}"
    deadline = time.monotonic() + 30
    # An error means a timeout, or that the others have left. This process has printed everything.
    with ExitStack() as held, socket.socket(socket.AF_UNIX) as own, suppress(OSError):
        if place.local_rank == 0:
            own.bind(name)
            own.listen(place.local_world_size)
            for _ in range(place.local_world_size - 1):
                own.settimeout(max(deadline - time.monotonic(), 0.001))
                held.enter_context(own.accept()[0])
            return
        while own.connect_ex(name) and time.monotonic() < deadline:
            time.sleep(0.05)
        own.settimeout(max(deadline - time.monotonic(), 0.001))
        own.recv(1)  # nothing is sent: local rank 0 closes the connection when all have arrived
