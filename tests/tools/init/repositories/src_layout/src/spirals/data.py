import math

import torch
from torch.utils.data import TensorDataset


def spirals(points: int, seed: int = 0) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    turns = torch.rand(points, generator=generator) * 3 * math.pi + 1
    labels = torch.arange(points) % 2
    angles = turns + math.pi * labels
    noise = 0.05 * torch.randn(points, 2, generator=generator)
    return TensorDataset(torch.stack([angles.cos(), angles.sin()], 1) * turns[:, None] / 10 + noise, labels)
