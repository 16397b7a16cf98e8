"""How fast the network carries a message from each rank to the next, measured when exchanges take much of an epoch.

From inside one exchange nobody can say whose link is slow: all wait equally long. One message after the other, each in
one direction, shows it. It is sent after an epoch, outside of every clock, and only once in a run.
"""

import time

import torch
import torch.distributed as dist

from trainkit import distributed

BYTES = 512 * 1024
"""Of a message: more than what a network passes on without a limit at first, and 80 ms at 50 Mbit/s."""
TRIES = 3
FROM_SHARE = 0.2
"""Part of an epoch that is spent in exchanges, from which on it is worth knowing."""
MOST_RANKS = 64


def worth_a_probe(communication_seconds: float, train_seconds: float) -> bool:
    """Whether exchanges took much of the epoch, on any rank, and messages can be sent; all ranks call it."""
    if not dist.is_initialized() or not 1 < dist.get_world_size() <= MOST_RANKS:
        return False
    (share,) = distributed.largest([communication_seconds / train_seconds if train_seconds > 0 else 0.0])
    return share >= FROM_SHARE and distributed.device_of_messages().type == "cpu"


def probe() -> dict[str, float]:
    """Send messages from each rank to the next, one after the other; return this rank's `to` and `bytes_per_second`.

    The best of some tries counts. All ranks call it.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    message, answer = torch.zeros(BYTES, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)
    distributed.SENT.extend([message, answer])
    found: dict[str, float] = {}
    for source in range(size):
        target = (source + 1) % size
        if rank == target:
            for _ in range(TRIES):
                dist.recv(message, source)
                dist.send(answer, source)
        elif rank == source:
            seconds = []
            for _ in range(TRIES):
                began = time.monotonic()
                dist.send(message, target)
                dist.recv(answer, target)
                seconds.append(time.monotonic() - began)
            found = {"to": target, "bytes_per_second": BYTES / max(min(seconds), 1e-9)}
        distributed.barrier()
    return found
