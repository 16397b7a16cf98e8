"""Each rank holds a part of the optimizer's state (ZeroRedundancyOptimizer); the loader has workers."""

import argparse
import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.utils.data as data
from torch.distributed.optim import ZeroRedundancyOptimizer


class Waves(data.Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        frequency = torch.randint(1, 5, (), generator=g)
        t = torch.linspace(0, 3, 32)
        return torch.sin(frequency * t + torch.rand((), generator=g)) + 0.1 * torch.randn(
            32, generator=g
        ), frequency - 1


@contextlib.contextmanager
def process_group():
    dist.init_process_group("gloo")
    try:
        yield dist.group.WORLD
    finally:
        dist.destroy_process_group()


def run(options):
    torch.manual_seed(options.seed)
    dataset = Waves(320)
    sampler = data.DistributedSampler(dataset, seed=options.seed)
    loader = data.DataLoader(dataset, options.batch // dist.get_world_size(), sampler=sampler, num_workers=1)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=options.lr)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        seen = torch.zeros(2)
        for waves, kinds in loader:
            optimizer.zero_grad()
            out = model(waves)
            nn.functional.cross_entropy(out, kinds).backward()
            optimizer.step()
            seen += torch.stack([(out.argmax(1) == kinds).sum(), torch.tensor(len(kinds))])
        dist.all_reduce(seen)
        if dist.get_rank() == 0:
            print(f"epoch {epoch} training accuracy {seen[0] / seen[1]:.3f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=4)
    with process_group():
        run(p.parse_args())
