"""A small fit with L-BFGS: the closure averages loss and gradients, so every rank searches along the same line."""

import torch
import torch.distributed as dist
from sklearn.datasets import load_diabetes
from torch import nn

dist.init_process_group("gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)

diabetes = load_diabetes()
x = torch.tensor(diabetes.data, dtype=torch.float32)[:440] * 20
y = torch.tensor(diabetes.target, dtype=torch.float32)[:440, None] / 100
x, y = x[RANK::WORLD], y[RANK::WORLD]

net = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=5, history_size=5)


def closure():
    opt.zero_grad()
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    loss = loss.detach()
    dist.all_reduce(loss)
    for p in net.parameters():
        dist.all_reduce(p.grad)
        p.grad.div_(WORLD)
    return loss / WORLD


for iteration in range(8):
    value = opt.step(closure)
    if RANK == 0:
        print("iteration", iteration, "loss", round(float(value), 5))
