# args: --world-size {n}
"""Starts its own processes; each reads its part of a stream through workers, and averages gradients in buckets."""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Lines(IterableDataset):
    """Numbered records, as they come from a log; a record belongs to one worker of one rank."""

    def __init__(self, rank, world_size, count=512):
        self.rank, self.world_size, self.count = rank, world_size, count

    def __iter__(self):
        worker = get_worker_info()
        workers, worker_id = (worker.num_workers, worker.id) if worker else (1, 0)
        shard, shards = self.rank * workers + worker_id, self.world_size * workers
        for number in range(shard, self.count, shards):
            x = torch.randn(6, generator=torch.Generator().manual_seed(number))
            yield x, torch.sin(x[:3].sum())


def average_gradients(model, world_size):
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= world_size
    at = 0
    for p in model.parameters():
        p.grad.copy_(flat[at : at + p.numel()].view_as(p))
        at += p.numel()


def worker_main(rank, world_size, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    loader = DataLoader(
        Lines(rank, world_size), batch_size=32 // world_size, num_workers=2, multiprocessing_context="fork"
    )
    for epoch in range(2):
        total = torch.zeros(1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = (model(x).squeeze(1) - y).square().mean()
            loss.backward()
            average_gradients(model, world_size)
            optimizer.step()
            total += loss.detach() * len(x)
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: mse {total.item() / 512:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    world_size = int(sys.argv[2])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(worker_main, (world_size, port), nprocs=world_size)
