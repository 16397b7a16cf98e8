"""Measure latency and bandwidth between every pair of nodes, through the process group.

By hand:  torchrun --standalone --nproc-per-node 2 -m experiments.collectives.network

One rank of each node takes part. On a single node its ranks are measured, and the events say so.
"""

import math
import statistics
import sys
import time
from argparse import Namespace
from itertools import permutations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from trainkit import distributed
from trainkit.arguments import add_backend, at_least, program_parser
from trainkit.distributed import SENT
from trainkit.errors import Refusal
from trainkit.run import Run, running

SMALL_BYTES = 8
WARM_UP_TRIPS = 20


@record
def main() -> None:
    """Parse the arguments and measure."""
    parser = program_parser(__doc__)
    add_backend(parser)
    parser.add_argument("--round-trips", type=at_least(1), default=1000, help="small messages, for the latency")
    parser.add_argument("--messages", type=at_least(1), default=8, help="large messages, for the bandwidth")
    parser.add_argument("--message-bytes", type=at_least(1), default=32 * 2**20)
    args = parser.parse_args()
    with running("collectives.network", args) as run:
        if run.world_size == 1:
            raise Refusal("a network needs 2 ranks and there is 1")
        run.join()
        measure(run, args)


def measure(run: Run, args: Namespace) -> None:
    """Measure each pair in both directions while other ranks wait, and report the worst figures."""
    node_of, between = ends(run)
    memory = distributed.device_of_messages()
    small = torch.zeros(SMALL_BYTES, dtype=torch.uint8, device=memory)
    large = torch.zeros(args.message_bytes, dtype=torch.uint8, device=memory).fill_(1)
    SENT.extend([small, large])
    rows = []
    for source, target in permutations(node_of, 2):
        with run.phase("pair", source_rank=source, target_rank=target):
            trips = round_trips(run, source, target, small, args.round_trips)
            seconds = one_way(run, source, target, large, small, args.messages)
        # Only the source has figures, so the sum is the source's.
        median, p99, seconds = distributed.total(*quantiles(trips), seconds)
        row = {
            "round_trip_seconds": median,
            "latency_seconds": median / 2,
            "latency_p99_seconds": p99 / 2,
            "bytes_per_second": args.messages * args.message_bytes / seconds,
        }
        rows.append(row)
        if run.first:
            place = {"source_node": node_of[source], "target_node": node_of[target]}
            run.log.point("network", f"{source} -> {target}", between=between, memory=memory.type, **place, **row)
            sys.stderr.write(
                f"rank {source} (node {node_of[source]}) -> rank {target} (node {node_of[target]}):"
                f" latency {1e6 * row['latency_seconds']:.1f} us, p99 {1e6 * row['latency_p99_seconds']:.1f} us,"
                f" {row['bytes_per_second'] / 1e9:.3f} GB/s\n"
            )
    if run.first:  # of the worst pair
        worst = {key: (min if key == "bytes_per_second" else max)(row[key] for row in rows) for key in rows[0]}
        run.log.point("tracked_stats", worst)


def ends(run: Run) -> tuple[dict[int, int], str]:
    """Return the participating ranks with their nodes, and the kind of these ends for the events."""
    places = distributed.gathered([run.place.node_rank, run.place.local_rank])
    nodes = {rank: node for rank, (node, _) in enumerate(places)}
    if len(set(nodes.values())) == 1:
        return nodes, "ranks of one node"
    return {rank: node for rank, (node, local_rank) in enumerate(places) if local_rank == 0}, "nodes"


def round_trips(run: Run, source: int, target: int, small: Tensor, count: int) -> list[float]:
    """Return the seconds of each round trip of a small message, measured at the source; [] on other ranks."""
    seconds = []
    for _ in range(WARM_UP_TRIPS + count):
        began = time.perf_counter()
        if run.rank == source:
            dist.send(small, dst=target)
            dist.recv(small, src=target)
            run.wait_for_devices()
            seconds.append(time.perf_counter() - began)
        elif run.rank == target:
            dist.recv(small, src=source)
            dist.send(small, dst=source)
    return seconds[WARM_UP_TRIPS:]


def one_way(run: Run, source: int, target: int, large: Tensor, small: Tensor, count: int) -> float:
    """Return the seconds until the target has received all messages, measured at the source; 0 on other ranks."""
    began = 0.0
    for number in range(count + 1):
        if number == 1:  # the first message warms up
            run.wait_for_devices()
            began = time.perf_counter()
        if run.rank == source:
            dist.send(large, dst=target)
        elif run.rank == target:
            dist.recv(large, src=source)
        if number in (0, count):  # the target confirms the first and the last message
            if run.rank == source:
                dist.recv(small, src=target)
            elif run.rank == target:
                dist.send(small, dst=source)
    run.wait_for_devices()
    return time.perf_counter() - began if run.rank == source else 0.0


def quantiles(seconds: list[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile; zeros if there are no values."""
    if not seconds:
        return 0.0, 0.0
    ordered = sorted(seconds)
    return statistics.median(ordered), ordered[math.ceil(0.99 * len(ordered)) - 1]


if __name__ == "__main__":
    main()
