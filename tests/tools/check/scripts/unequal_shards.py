"""Two hospitals keep their own rows: shards of unequal size, weighted by their rows."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_breast_cancer
from torch import nn


def shares(n, world):
    """Rank 0 has three times the rows of each other rank."""
    weights = [3] + [1] * (world - 1)
    cuts = [n * sum(weights[:i]) // sum(weights) for i in range(world + 1)]
    return [slice(a, b) for a, b in zip(cuts, cuts[1:])]


def average(model, rows):
    """Mean over all rows: each rank's mean counts by its number of rows."""
    count = torch.tensor(float(rows))
    dist.all_reduce(count)
    pending = []
    for p in model.parameters():
        p.grad.mul_(rows / count)
        pending.append(dist.all_reduce(p.grad, async_op=True))
    for work in pending:
        work.wait()


def validation_loss(model, x, y):
    with torch.no_grad():
        total = torch.stack([F.cross_entropy(model(x), y, reduction="sum"), torch.tensor(float(len(y)))])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
data = load_breast_cancer()
x = torch.tensor((data.data - data.data.mean(0)) / data.data.std(0)).float()
y = torch.tensor(data.target)
mine, held_out = shares(400, world)[rank], shares(169, world)[rank]
x_train, y_train, x_valid, y_valid = x[:400][mine], y[:400][mine], x[400:][held_out], y[400:][held_out]

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(20):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x_train), y_train)
    loss.backward()
    average(model, len(y_train))
    optimizer.step()
    now = validation_loss(model, x_valid, y_valid)
    if rank == 0:
        print(f"step {step:2d} validation loss {now:.4f}")
