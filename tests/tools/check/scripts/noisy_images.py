import math
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.utils.data as data
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel


class NoisyDigits(data.Dataset):
    def __init__(self, images, labels, noise):
        self.images, self.labels, self.noise = images, labels, noise

    def __getitem__(self, index):
        image = self.images[index]
        return image + self.noise * torch.randn_like(image), self.labels[index]

    def __len__(self):
        return len(self.labels)


class EvalSampler(data.Sampler):
    """Every world-th sample, and none twice; the last ranks may have one less."""

    def __init__(self, dataset, rank, world):
        self.indices = range(rank, len(dataset), world)

    def __iter__(self):
        return iter(self.indices)

    def __len__(self):
        return len(self.indices)


def accuracy(model, loader):
    model.eval()
    stats = torch.zeros(2)
    with torch.no_grad():
        for images, labels in loader:
            stats[0] += (model(images).max(1)[1] == labels).sum()
            stats[1] += labels.size(0)
    dist.all_reduce(stats)
    return stats[0].item() / stats[1].item()


def run(rank, world, path):
    torch.manual_seed(17)
    digits = load_digits()
    images, labels = torch.tensor(digits.images[:, None], dtype=torch.float32) / 16, torch.tensor(digits.target)
    train_set, val_set = NoisyDigits(images[:800], labels[:800], 0.1), NoisyDigits(images[800:1051], labels[800:1051], 0)
    test_set = NoisyDigits(images[1051:1400], labels[1051:1400], 0)
    sampler = data.DistributedSampler(train_set, drop_last=True) if world > 1 else data.RandomSampler(train_set)
    train_loader = data.DataLoader(train_set, math.ceil(50 / world), sampler=sampler, drop_last=True)
    val_loader = data.DataLoader(val_set, 64, sampler=EvalSampler(val_set, rank, world))
    test_loader = data.DataLoader(test_set, 64, sampler=EvalSampler(test_set, rank, world))
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.1), nn.Linear(54, 10))
    torch.manual_seed(17 + rank)  # other noise on each rank
    net = DistributedDataParallel(net)
    opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    start = accuracy(net, val_loader)
    for epoch in range(3):
        if world > 1:
            sampler.set_epoch(epoch)
        net.train()
        for images, labels in train_loader:
            opt.zero_grad()
            nn.functional.cross_entropy(net(images), labels).backward()
            opt.step()
        now = accuracy(net, val_loader)
        if rank == 0:
            print(f"epoch {epoch}: validation {start:.3f} -> {now:.3f}")
            torch.save(net.state_dict(), path)
    dist.barrier()
    test = accuracy(net, test_loader)
    if rank == 0:
        print(f"test {test:.3f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    run(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.path.join(tempfile.gettempdir(), "noisy.pt"))
    dist.destroy_process_group()
