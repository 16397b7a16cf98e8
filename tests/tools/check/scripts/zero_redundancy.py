"""Each rank holds a part of the optimizer's state (ZeroRedundancyOptimizer); the loader has workers."""

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
        return torch.sin(frequency * t + torch.rand((), generator=g)), frequency - 1


def run():
    torch.manual_seed(4)
    dataset = Waves(320)
    sampler = data.DistributedSampler(dataset, seed=4)
    loader = data.DataLoader(dataset, 32 // dist.get_world_size(), sampler=sampler, num_workers=1)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=3e-3)
    for epoch in range(2):
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
    dist.init_process_group("gloo")
    run()
    dist.destroy_process_group()
