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
FEWEST_TRIES, MOST_TRIES, SECONDS = 3, 12, 0.25
"""Of a link: on a busy machine most messages wait for a processor, and one that does not shows the link; on a slow link
the fewest show it."""
FROM_SHARE = 0.2
"""Part of an epoch that is spent in exchanges, from which on it is worth knowing."""
MOST_RANKS = 64


def worth_a_probe(communication_seconds: float, train_seconds: float) -> bool:
    """Return whether exchanges took much of the epoch, on any rank, and messages can be sent; all ranks call it."""
    if not dist.is_initialized() or not 1 < dist.get_world_size() <= MOST_RANKS:
        return False
    (share,) = distributed.largest([communication_seconds / train_seconds if train_seconds > 0 else 0.0])
    return share >= FROM_SHARE and distributed.device_of_messages().type == "cpu"


def probe() -> dict[str, float]:
    """Send messages from each rank to the next, one after the other; return this rank's `to` and `bytes_per_second`.

    The best of some tries counts. All ranks call it.
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
    """Send messages until it is known how fast they go; return the seconds of the fastest, with its answer."""
    message, answer = _tensors()
    seconds: list[float] = []
    while not message[-1]:
        # The last byte of the last message says that it is the last.
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
