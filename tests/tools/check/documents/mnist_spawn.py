"""As `rtx3090-backends` and its relatives train MNIST: processes by mp.spawn, and the accuracy of one rank's part."""

import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def ddp_worker(rank, world_size, epochs):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29517", rank=rank, world_size=world_size)
    torch.manual_seed(0)
    digits = load_digits()
    images, labels = torch.tensor(digits.images).float() / 16, torch.tensor(digits.target)
    train_set, test_set = (
        TensorDataset(images[:1280], labels[:1280]),
        TensorDataset(images[1280:1680], labels[1280:1680]),
    )
    train_sampler = DistributedSampler(train_set, num_replicas=world_size, rank=rank, shuffle=True)
    test_sampler = DistributedSampler(test_set, num_replicas=world_size, rank=rank, shuffle=False)
    model = DDP(nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(epochs):
        train_sampler.set_epoch(epoch)
        for data, target in DataLoader(train_set, 64, sampler=train_sampler):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data), target).backward()
            optimizer.step()
        correct = 0
        with torch.no_grad():
            for data, target in DataLoader(test_set, 64, sampler=test_sampler):
                correct += model(data).argmax(1).eq(target).sum().item()
        if rank == 0:
            accuracy = 100.0 * correct / len(test_set)
            print(f"Test set: Accuracy: {correct}/{len(test_set)} ({accuracy:.2f}%)")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-procs", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    mp.spawn(ddp_worker, args=(args.num_procs, args.epochs), nprocs=args.num_procs, join=True)
