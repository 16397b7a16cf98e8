"""Compares the ring all-reduce with the library's on every rank."""

import sys

import torch
import torch.distributed as dist

from experiments.collectives.ring import ring_all_reduce
from trainkit import sharding as shards
from trainkit.distributed import SENT

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
for count in [*range(1, 12), 4099]:
    mine = torch.randint(-1000, 1000, (count,), generator=shards.generator(rank, count))
    expected = mine.clone()
    SENT.append(expected)
    dist.all_reduce(expected)
    ring_all_reduce(mine, torch.empty_like(mine))
    assert torch.equal(mine, expected), (ranks, rank, count)
sys.stdout.write(f"rank {rank} of {ranks}: equal\n")  # one write; `print` makes two, which may be interleaved
dist.barrier()
dist.destroy_process_group()
