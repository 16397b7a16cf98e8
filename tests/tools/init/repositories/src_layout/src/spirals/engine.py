"""One epoch of training, and the evaluation."""

import torch
from torch.nn import functional as F


def train_one_epoch(model, loader, optimizer):
    model.train()
    for points, labels in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(points), labels)
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = sum((model(points).argmax(1) == labels).sum().item() for points, labels in loader)
    return hits / len(loader.dataset)
