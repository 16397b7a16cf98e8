"""Measure the speed of the network from each rank to the next, if exchanges take much of an epoch.

During an exchange all ranks wait equally long, so exchanges do not show which link is slow. Single messages show the
slow link. They are sent one at a time after an epoch, while no clock runs. The probe runs once per run.
"""

import time

import torch
import torch.distributed as dist

from trainkit import distributed

BYTES = 512 * 1024
"""Size of a message: larger than the burst that a rate-limited network passes at once, and 80 ms at 50 Mbit/s."""
FEWEST_TRIES, MOST_TRIES, SECONDS = 3, 12, 0.25
"""Limits per link. On a busy machine most messages wait for a processor, so the fastest message counts."""
FROM_SHARE = 0.2
"""Smallest share of an epoch spent in exchanges that is worth a probe."""
MOST_RANKS = 64


def worth_a_probe(communication_seconds: float, train_seconds: float) -> bool:
    """Return whether exchanges took much of the epoch on any rank and a probe is possible; all ranks must call it."""
    if not dist.is_initialized() or not 1 < dist.get_world_size() <= MOST_RANKS:
        return False
    (share,) = distributed.largest([communication_seconds / train_seconds if train_seconds > 0 else 0.0])
    return share >= FROM_SHARE and distributed.device_of_messages().type == "cpu"


def probe() -> dict[str, float]:
    """Send messages from each rank to the next in turn; return this rank's `to` and best `bytes_per_second`.

    All ranks must call it.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    found: dict[str, float] = {}
    for source in range(size):
        target = (source + 1) % size
        if rank == target:
            _receive(source)
        elif rank == source:
            found = {"to": target, "bytes_per_second": BYTES / max(_send(target), 1e-9)}
        distributed.barrier()
    return found


def _send(target: int) -> float:
    """Send messages until their speed is clear; return the seconds of the fastest message and its answer."""
    message, answer = _tensors()
    seconds: list[float] = []
    while not message[-1]:
        # The last byte marks the last message.
        known = len(seconds) >= FEWEST_TRIES - 1 and sum(seconds) >= SECONDS
        message[-1] = int(known or len(seconds) == MOST_TRIES - 1)
        began = time.monotonic()
        dist.send(message, target)
        dist.recv(answer, target)
        seconds.append(time.monotonic() - began)
    return min(seconds)


def _receive(source: int) -> None:
    message, answer = _tensors()
    while not message[-1]:
        dist.recv(message, source)
        dist.send(answer, source)


def _tensors() -> tuple[torch.Tensor, torch.Tensor]:
    message, answer = torch.zeros(BYTES, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)
    distributed.SENT.extend([message, answer])
    return message, answer
