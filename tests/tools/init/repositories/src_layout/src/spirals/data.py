import torch
from torch.utils.data import TensorDataset


def spirals(points: int, seed: int = 0) -> TensorDataset:
    noise = torch.randn(points, 2, generator=torch.Generator().manual_seed(seed))
    labels, turns = torch.arange(points) % 2, torch.linspace(1, 10, points)
    angles = turns + 3.1416 * labels
    return TensorDataset(torch.stack([angles.cos(), angles.sin()], 1) * turns[:, None] / 10 + noise / 20, labels)
