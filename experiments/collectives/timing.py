"""How long a call takes: warmed up, in rounds of many calls, on the slowest rank."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from trainkit.distributed import SENT, device_of_messages, largest
from trainkit.run import Run

WARM_UP_CALLS = 2
ROUND_BYTES = 64 * 2**20
"""A round repeats a call until it has moved about so much; small messages are repeated more often."""
SHORT_CALLS = 10
SHORT_SECONDS = 0.1
"""A large message is sent so often if all of it takes no longer: else the start of a round would be a part of it."""


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the mean over all rounds, and the fastest round's."""

    seconds: float
    min_seconds: float
    calls: int
    """In all rounds together."""


def time_calls(run: Run, call: Callable[[], object], size: int, rounds: int, most_calls: int) -> Timing:
    """Time a call that moves `size` bytes, at most so many times a round; every rank has to make it."""
    *_, last = [time_round(run, call, 1) for _ in range(WARM_UP_CALLS)]
    by_time = min(SHORT_CALLS, int(SHORT_SECONDS / max(largest([last])[0], 1e-9)))
    calls = max(1, min(most_calls, max(ROUND_BYTES // max(size, 1), by_time)))
    seconds = torch.tensor([time_round(run, call, calls) for _ in range(rounds)], dtype=torch.float64)
    seconds = seconds.to(device_of_messages()) / calls
    SENT.append(seconds)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)  # a call is done when the last rank is
    return Timing(seconds.mean().item(), seconds.min().item(), calls * rounds)


def time_round(run: Run, call: Callable[[], object], calls: int) -> float:
    """Return the seconds that this rank needs, from a moment at which all ranks were idle."""
    run.synchronise()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    run.wait_for_devices()
    return time.perf_counter() - began
