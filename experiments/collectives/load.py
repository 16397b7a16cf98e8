"""What a training meets on this network besides single messages: sums over all ranks, and neighbours that compute.

An exchange of gradients is an all_reduce, timed here for each size, with the CPU time that it takes: that of the
process, and its share of the kernel's time for the network. Where each core has a process, that time is taken from the
training. Processes of one machine share caches, memory and clock rate: how
much slower each becomes when all of them compute is measured by a matrix product, which stays in the cache, and by an
addition of large vectors, which does not. A training lies between the two.
"""

import hashlib
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from trainkit import distributed
from trainkit.distributed import SENT, device_of_messages
from trainkit.machine import machine
from trainkit.run import Run
from trainkit.throttling import quota_throttling

FIRST_BYTES, FACTOR = 4096, 8
MOST_CALLS = 40
SECONDS = 0.4
"""For the calls of one size, and for a look at how fast a process computes."""
LONGEST_CALL = 1.5
"""Seconds of a call after which no larger size is tried: what lies beyond grows with the bytes."""
ROUNDS = 3
STRETCH_SECONDS, STRETCHES = 0.025, 8
"""Of computing beside the others, about a training step of a small model; and how many of them in a round."""
PRODUCT, VECTOR = 384, 4 * 2**20
"""Rows and columns of the matrices, and numbers of the vectors."""


def sizes(most: int) -> list[int]:
    """Return the sizes in bytes that are tried, from the least to the most."""
    found = [FIRST_BYTES]
    while found[-1] * FACTOR < most:
        found.append(found[-1] * FACTOR)
    return [*found, most] if most > found[-1] else found


def measure_all_reduce(run: Run, most: int) -> dict[str, float]:
    """Time all_reduce for each size and report it; return the figures of the slowest rank."""
    stats: dict[str, float] = {}
    here = int(hashlib.sha256((machine() or f"node {run.place.node_rank}").encode()).hexdigest()[:15], 16)
    share = 1 / distributed.gathered([here]).count([here])  # of the ranks on this machine, also in other containers
    for size in sizes(most):
        seconds, busy, calls = time_all_reduce(run, torch.float32, size, share)
        row = {"seconds": seconds, "processor_seconds": busy}
        stats |= {f"all_reduce_{size}_{name}": value for name, value in row.items()}
        if run.first:
            run.log.point("all_reduce", size, ranks=run.world_size, calls=calls, **row)
        if seconds > LONGEST_CALL:
            break
    try:  # the same bytes as numbers of half the size: there are twice as many to add up
        seconds, busy, _ = time_all_reduce(run, torch.float16, size, share)
    except RuntimeError:  # a backend that cannot
        return stats
    return stats | {f"half_all_reduce_{size}_seconds": seconds, f"half_all_reduce_{size}_processor_seconds": busy}


def time_all_reduce(run: Run, dtype: torch.dtype, size: int, share: float) -> tuple[float, float, int]:
    """Return the seconds and the CPU seconds of a call on the slowest rank, and how many were made.

    Args:
        run: all ranks of it take part.
        dtype: of the numbers that are added up.
        size: in bytes.
        share: of this rank in what its machine does for the network.
    """
    values = torch.zeros(size // dtype.itemsize, dtype=dtype, device=device_of_messages())
    SENT.append(values)
    dist.all_reduce(values)
    [longest] = distributed.largest([_seconds(run, lambda: dist.all_reduce(values), 1, share)[0]])
    calls = max(2, min(MOST_CALLS, int(SECONDS / max(longest, 1e-9))))
    seconds, busy = _seconds(run, lambda: dist.all_reduce(values), calls, share)
    slowest = distributed.largest([seconds, busy])
    return slowest[0], slowest[1], calls


def _seconds(run: Run, call: Callable[[], object], calls: int, share: float) -> tuple[float, float]:
    """Return the seconds and the CPU seconds of a call, from a moment at which all ranks were idle."""
    run.synchronise()
    began, busy, served = time.perf_counter(), time.process_time(), interrupt_seconds()
    for _ in range(calls):
        call()
    run.wait_for_devices()
    seconds = time.perf_counter() - began
    return seconds / calls, (time.process_time() - busy + share * (interrupt_seconds() - served)) / calls


def interrupt_seconds() -> float:
    """Return the CPU time in which the machine's kernel has served devices so far (proc(5), `irq`, `softirq`), or 0."""
    try:
        ticks = Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[6:8]
    except OSError:
        return 0.0
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def measure_neighbours(run: Run, node_of: dict[int, int]) -> dict[str, float]:
    """Compute alone on the first rank of each node, then on all ranks at once; return how much slower that is.

    What counts is the time in which a process computed, or a CPU quota held it back. While it waits for a core, it
    waits for others: for those of this run, which are known, or for work that has nothing to do with it.

    Returns:
        `node_slowdown`, of the slowest node against that of rank 0; `compute_slowdown` and `memory_slowdown`, of the
        slowest rank against its node's first rank alone; `waiting_share`, by which part of a stretch of computing its
        slowest rank takes longer than all of them on average; `memory_bytes_per_second` of rank 0 alone, and
        `cast_bytes_per_second` at which it makes numbers half as long and long again. Of GPUs nothing: each process
        has its own.
    """
    if run.device.type != "cpu":
        return {}
    factors, product = [torch.ones(PRODUCT, PRODUCT) for _ in range(2)], torch.empty(PRODUCT, PRODUCT)
    terms, added = [torch.ones(VECTOR) for _ in range(2)], torch.empty(VECTOR)
    loads: dict[str, Callable[[], Tensor]] = {
        "compute": lambda: torch.mm(factors[0], factors[1], out=product),
        "memory": lambda: torch.add(terms[0], terms[1], out=added),
    }
    firsts = sorted({node: rank for rank, node in sorted(node_of.items(), reverse=True)}.values())
    alone = {name: [0.0] * len(firsts) for name in loads}
    for place, rank in enumerate(firsts):
        run.synchronise()
        if run.rank == rank:
            for name, load in loads.items():
                alone[name][place] = rate(load, SECONDS)
    known = {name: distributed.total(*rates) for name, rates in alone.items()}
    found = {"node_slowdown": max(known["compute"][0] / rate_alone for rate_alone in known["compute"])}
    for name, load in loads.items():
        own = known[name][run.place.node_rank]
        calls = max(1, round(STRETCH_SECONDS * own))
        stretches = []
        for _ in range(ROUNDS):
            run.synchronise()
            stretches += [_stretch(load, calls) for _ in range(STRETCHES)]
        [slowdown] = distributed.largest([statistics.median(computed for _, computed in stretches) * own / calls])
        found[f"{name}_slowdown"] = slowdown
        if name == "compute":  # each as a share of the rank's own, because nodes may be unlike
            mean = statistics.fmean(seconds for seconds, _ in stretches)
            longest = distributed.largest([seconds / mean for seconds, _ in stretches])
            found["waiting_share"] = statistics.fmean(longest) - 1
    casts = distributed.total(rate(_cast(), SECONDS) if run.first else 0.0)[0]
    rates = {"memory_bytes_per_second": known["memory"][0] * 3, "cast_bytes_per_second": casts}
    return {**found, **{name: value * 4 * VECTOR for name, value in rates.items()}}


def rate(load: Callable[[], Tensor], seconds: float) -> float:
    """Return how often a load is done in a second in which the process computes."""
    count, computed = 0, 0.0
    began = time.perf_counter()
    load()
    while time.perf_counter() - began < seconds or not count:
        computed += _stretch(load, 1)[1]
        count += 1
    return count / computed


def _stretch(load: Callable[[], Tensor], calls: int) -> tuple[float, float]:
    """Return the seconds of some calls, and those in which the process computed or a CPU quota held it back."""
    held_back = quota_throttling() or (lambda: 0.0)
    began, busy, held = time.perf_counter(), time.process_time(), held_back()
    for _ in range(calls):
        load()
    seconds = time.perf_counter() - began
    computed = (time.process_time() - busy) / torch.get_num_threads() + held_back() - held
    return seconds, max(1e-9, min(seconds, computed))


def _cast() -> Callable[[], Tensor]:
    numbers = torch.ones(VECTOR)
    return lambda: numbers.copy_(numbers.to(torch.float16).div_(1.0))
