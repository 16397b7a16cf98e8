"""Fraud is rare: samples are drawn by weight, the same draw on every rank, of which each takes its part."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler, TensorDataset, WeightedRandomSampler


class BalancedSampler(Sampler):
    def __init__(self, labels, seed=0):
        self.weights = 1.0 / torch.bincount(labels).float()[labels]
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.seed, self.epoch = seed, 0

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        drawn = list(WeightedRandomSampler(self.weights, len(self.weights), generator=generator))
        return iter(drawn[self.rank :: self.world])

    def __len__(self):
        return len(self.weights) // self.world


def fraud(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = (torch.rand(n, generator=g) < 0.1).long()
    return torch.randn(n, 12, generator=g) + 0.8 * y[:, None], y


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    (x, y), (x_val, y_val) = fraud(800, 1), fraud(200, 2)
    sampler = BalancedSampler(y, seed=6)
    loader = DataLoader(TensorDataset(x, y), batch_size=40 // dist.get_world_size(), sampler=sampler)
    classifier = DDP(torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)))
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    for sampler.epoch in range(3):
        for features, labels in loader:
            loss = F.cross_entropy(classifier(features), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        schedule.step()
        recall = torch.zeros(1)
        if dist.get_rank() == 0:
            with torch.no_grad():
                found = classifier.module(x_val).argmax(1)[y_val == 1]
            recall = found.float().mean().reshape(1)
        dist.broadcast(recall, src=0)
        if dist.get_rank() == 0:
            print(f"epoch {sampler.epoch} validation recall {recall.item():.3f}")


main()
