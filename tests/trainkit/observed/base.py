"""What the trainings of this folder share; none of them knows that it is observed.

Each returns its model and what it counted itself. A figure of None is one that the observer has to leave open.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed.tensor.parallel
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

Truth = dict[str, Any]
Done = tuple[nn.Module | None, Truth]
SCRIPTS: dict[str, Callable[[], Done]] = {}
INPUTS = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
DATA = TensorDataset(INPUTS, INPUTS.sum(1, keepdim=True))


def script(function: Callable[[], Done]) -> Callable[[], Done]:
    SCRIPTS[function.__name__] = function
    return function


def made(rate: float = 0.01, kind: Any = torch.optim.SGD) -> tuple[nn.Module, Any]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
    return model, kind(model.parameters(), lr=rate)


def loader(size: int = 16, data: Dataset[Any] = DATA, **words: Any) -> DataLoader[Any]:
    return DataLoader(data, size, **words)


def step(model: nn.Module, optimizer: Any, batch: Any) -> int:
    optimizer.zero_grad()
    F.mse_loss(model(batch[0]), batch[1]).backward()
    optimizer.step()
    return len(batch[0])


def train(model: nn.Module, optimizer: Any, batches: Any) -> int:
    return sum(step(model, optimizer, batch) for batch in batches)


def evaluate(model: nn.Module, batches: Any) -> int:
    model.eval()
    with torch.no_grad():
        samples = sum(len(model(inputs)) for inputs, _ in batches)
    model.train()
    return samples


def open_count(steps: int | None) -> Truth:
    return {"steps": steps, "samples": None}
