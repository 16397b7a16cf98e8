"""Helpers of the trainings in this folder, which do not know that they are observed.

Each training is given a model and an optimizer, and returns its own counts, after its model if it made one. None marks
a figure that the observer has to leave open.
"""

import torch
import torch.distributed.tensor.parallel
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SCRIPTS = {}
INPUTS = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
DATA = TensorDataset(INPUTS, INPUTS.sum(1, keepdim=True))


def script(function):
    SCRIPTS[function.__name__] = function
    return function


def made(kind=torch.optim.SGD):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
    return model, kind(model.parameters(), lr=0.01)


def loader(size=16, data=DATA, **words):
    return DataLoader(data, size, **words)


def step(model, optimizer, batch):
    optimizer.zero_grad()
    F.mse_loss(model(batch[0]), batch[1]).backward()
    optimizer.step()
    return len(batch[0])


def train(model, optimizer, batches):
    return sum(step(model, optimizer, batch) for batch in batches)


def evaluate(model, batches):
    model.eval()
    with torch.no_grad():
        samples = sum(len(model(inputs)) for inputs, _ in batches)
    model.train()
    return samples


def open_count(steps):
    return {"steps": steps, "samples": None}
