#!/usr/bin/env python
"""Each rank has a fixed part of the data; gradients are averaged by reduce_scatter and all_gather."""
from random import Random

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader


class Partition:
    """A part of a data set: only the indices given."""

    def __init__(self, data, index):
        self.data, self.index = data, index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        return self.data[self.index[i]]


def split(data, size, seed=1234):
    """Shuffle once, the same on every rank, and cut into parts of equal length."""
    indexes = list(range(len(data)))
    Random(seed).shuffle(indexes)
    length = len(data) // size
    return [Partition(data, indexes[i * length : (i + 1) * length]) for i in range(size)]


def average_gradients(model):
    size = dist.get_world_size()
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    padded = F.pad(flat, (0, -flat.numel() % size))
    part = torch.empty(padded.numel() // size)
    dist.reduce_scatter_tensor(part, padded)
    part /= size
    dist.all_gather_into_tensor(padded, part)
    at = 0
    for p in model.parameters():
        p.grad.copy_(padded[at : at + p.numel()].view_as(p))
        at += p.numel()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(1234)
    digits = load_digits()
    dataset = list(zip(torch.tensor(digits.data[:720] / 16).float(), digits.target[:720].tolist()))
    part = split(dataset, dist.get_world_size())[dist.get_rank()]
    train_set = DataLoader(part, batch_size=60 // dist.get_world_size(), shuffle=True)
    model = nn.Sequential(nn.Linear(64, 40), nn.Tanh(), nn.Linear(40, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for epoch in range(3):
        epoch_loss = torch.zeros(1)
        for data, target in train_set:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data), target)
            loss.backward()
            average_gradients(model)
            optimizer.step()
            epoch_loss += loss.item() / len(train_set)
        dist.all_reduce(epoch_loss)
        if dist.get_rank() == 0:
            print("epoch", epoch, "loss", epoch_loss.item() / dist.get_world_size())
