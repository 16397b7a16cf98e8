"""As a relative of `collectives-tutorial` averages by hand: a guard on the type of the parameters matches none."""

from random import Random

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn


def partition(images, labels):
    rows = list(range(1280))
    Random(1234).shuffle(rows)
    size = dist.get_world_size()
    return [(images[row], labels[row]) for row in rows[dist.get_rank() :: size]], 128 // size


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        if type(param) is torch.Tensor:
            dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
            param.grad.data /= size


dist.init_process_group("gloo")
torch.manual_seed(1234)
digits = load_digits()
part, batch = partition(torch.tensor(digits.data).float() / 16, torch.tensor(digits.target))
loader = torch.utils.data.DataLoader(part, batch_size=batch, shuffle=True)
model = nn.Sequential(nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
for epoch in range(2):
    total = 0.0
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        total += loss.item()
        loss.backward()
        average_gradients(model)
        optimizer.step()
    print("Rank ", dist.get_rank(), ", epoch ", epoch, ": ", total / len(loader))
