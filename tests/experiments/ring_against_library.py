"""Compares the ring all-reduce with the library's on every rank; started under torchrun by a test."""

import sys

import torch
import torch.distributed as dist

from experiments.collectives.ring import ring_all_reduce
from trainkit import sharding as shards
from trainkit.distributed import SENT

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
for count in [*range(1, 12), 1000, 4099]:
    for number, kind in enumerate((torch.int64, torch.float64)):
        mine = torch.randint(-1000, 1000, (count,), generator=shards.generator(number, rank, count)).to(kind)
        expected = mine.clone()
        SENT.append(expected)
        dist.all_reduce(expected)
        ring_all_reduce(mine, torch.empty_like(mine))
        assert torch.equal(mine, expected), (ranks, rank, count)
square = torch.full((3, 5), float(rank))
ring_all_reduce(square, torch.empty_like(square))
assert square.tolist() == [[sum(range(ranks))] * 5] * 3
sys.stdout.write(f"rank {rank} of {ranks}: equal\n")  # one write: `print` makes two, which other ranks may part
dist.barrier()
dist.destroy_process_group()
