"""ResNet50, and its division into two halves.

The 1,000 classes and MSE against one-hot labels follow `collectives-tutorial`, which trains on noise to measure time.
"""

import torch
from torch import nn
from torchvision.models import resnet50

NUM_CLASSES = 1000


def build_resnet50(seed: int) -> nn.Module:
    """Return ResNet50 with random parameters: images [N, 3, H, W] to outputs [N, 1000]."""
    torch.manual_seed(seed)
    model: nn.Module = resnet50(weights=None, num_classes=NUM_CLASSES)
    return model


def halves(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Split the model after layer2; the first half's output is [N, 512, H / 8, W / 8]."""
    parts = dict(model.named_children())
    cut = list(parts).index("layer3")
    first, second = list(parts.values())[:cut], list(parts.values())[cut:]
    return nn.Sequential(*first), nn.Sequential(*second[:-1], nn.Flatten(), second[-1])
