"""Time calls on the slowest rank, after a warm-up, in rounds of many calls."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from trainkit.distributed import SENT, device_of_messages, largest
from trainkit.run import Run

WARM_UP_CALLS = 2
ROUND_BYTES = 64 * 2**20
"""Bytes to move per round; small messages are repeated more often."""
SHORT_CALLS = 10
SHORT_SECONDS = 0.1
"""Large messages are sent up to `SHORT_CALLS` times per round within this time, to outweigh the start of a round."""


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the mean over all rounds, and the fastest round's."""

    seconds: float
    min_seconds: float
    calls: int
    """Calls of all rounds."""


def time_calls(run: Run, call: Callable[[], object], size: int, rounds: int, most_calls: int) -> Timing:
    """Time a call that moves `size` bytes, at most `most_calls` times per round; all ranks must call it."""
    *_, last = [time_round(run, call, 1) for _ in range(WARM_UP_CALLS)]
    by_time = min(SHORT_CALLS, int(SHORT_SECONDS / max(largest([last])[0], 1e-9)))
    calls = max(1, min(most_calls, max(ROUND_BYTES // max(size, 1), by_time)))
    seconds = torch.tensor([time_round(run, call, calls) for _ in range(rounds)], dtype=torch.float64)
    seconds = seconds.to(device_of_messages()) / calls
    SENT.append(seconds)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)  # the slowest rank counts
    return Timing(seconds.mean().item(), seconds.min().item(), calls * rounds)


def time_round(run: Run, call: Callable[[], object], calls: int) -> float:
    """Return this rank's seconds for a round, which begins when all ranks are idle."""
    run.synchronise()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    run.wait_for_devices()
    return time.perf_counter() - began
