"""Contrastive learning: each embedding is told from those of the whole global batch."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))


class TwoViews(Dataset):
    """An image and the same image moved by one pixel, both with some pixels left out."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        noise = torch.Generator().manual_seed(i)
        keep = torch.rand(2, 8, 8, generator=noise) > 0.2
        return self.images[i] * keep[0], self.images[i].roll(1, 0) * keep[1]


def gather(z):
    """Embeddings of all ranks; only one's own carry a gradient."""
    parts = [torch.zeros_like(z) for _ in range(world)]
    dist.all_gather(parts, z.detach())
    parts[rank] = z
    return torch.cat(parts)


def info_nce(a, b, temperature=0.3):
    logits = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / temperature
    target = torch.arange(len(a))
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


dist.init_process_group("gloo", rank=rank, world_size=world)
torch.manual_seed(5)
images = torch.tensor(load_digits().images[:640] / 16, dtype=torch.float32)
data = TwoViews(images)
sampler = DistributedSampler(data, num_replicas=world, rank=rank, drop_last=True)
loader = DataLoader(data, batch_size=64 // world, sampler=sampler, drop_last=True)
encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
model = DDP(encoder)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for first, second in loader:
        z = model(torch.cat([first, second]))
        a, b = z.chunk(2)
        # DDP averages over the ranks, each of which has the gradient of the whole loss for its own rows only
        loss = info_nce(gather(a), gather(b)) * world
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"epoch {epoch} contrastive loss {loss.item() / world:.3f}")
dist.destroy_process_group()
