"""Bandwidth of all_reduce as the kit measures it against a bare loop around torch.distributed, in pairs.

64 MB between two local processes through Gloo, in turns within one run: what the kit adds to a call is
nothing, so the two have to agree within 10%.
"""

import os
import statistics
import time
from argparse import Namespace

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from bench.timing import in_turn
from experiments.collectives.operations import OPERATIONS, cut
from experiments.collectives.timing import WARM_UP_CALLS, time_calls
from trainkit.run import Run, make_repeatable

SIZE = 64 * 10**6
PAIRS = 15
CALLS = 5
GOAL = 10.0


def main() -> None:
    """Start the two processes; the first prints the result."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    spawn(work, args=(store.port,), nprocs=2)


def work(rank: int, port: int) -> None:
    """Measure the pairs, each side first in turn."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    run = Run("bench", Namespace(device="cpu", backend="gloo"))
    make_repeatable(run.device, threads=1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    arenas = [torch.empty(SIZE, dtype=torch.uint8).fill_(0) for _ in range(2)]
    buffers, _ = cut(OPERATIONS["all_reduce"], SIZE, arenas, run.world_size)

    def kit_seconds() -> float:
        return time_calls(run, lambda: OPERATIONS["all_reduce"].call(buffers), SIZE, CALLS, CALLS).seconds

    kit, bare = zip(*in_turn(kit_seconds, lambda: bare_seconds(buffers.mine), PAIRS), strict=True)
    if rank == 0:
        differences = [(plain / ours - 1) * 100 for plain, ours in zip(bare, kit, strict=True)]
        points = ", ".join(f"{difference:+.0f}%" for difference in differences)
        print(
            f"collectives: all_reduce of {SIZE / 1e6:.0f} MB on 2 processes, {SIZE / min(kit) / 1e9:.2f} GB/s at best:"
            f" {statistics.median(differences):+.1f}% of a bare loop's bandwidth (goal: within {GOAL:g}%),"
            f" the fastest of each {(min(bare) / min(kit) - 1) * 100:+.1f}%; median of {PAIRS} pairs: {points}"
        )
    dist.barrier()
    dist.destroy_process_group()


def bare_seconds(tensor: torch.Tensor) -> float:
    """Time one call in a plain loop."""
    for _ in range(WARM_UP_CALLS):
        dist.all_reduce(tensor)
    dist.barrier()
    began = time.perf_counter()
    for _ in range(CALLS):
        dist.all_reduce(tensor)
    return (time.perf_counter() - began) / CALLS
