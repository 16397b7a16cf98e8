"""The models of the published experiments, named after their architecture.

All take images [N, 1, 28, 28] and return logits [N, 10]; the loss is their cross entropy, which equals the negative log
likelihood of log_softmax in some sources. ReLU follows max pooling, and not the reverse as in some sources: the values
are the same, for a quarter of the work.
"""

from collections.abc import Callable

from torch import nn


def conv2_fc500() -> nn.Module:
    """Build two convolutions and a hidden layer of 500 (`a100-ddp`; there Adam 1e-3, 512 samples per process)."""
    return nn.Sequential(
        nn.Conv2d(1, 10, kernel_size=5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(10, 20, kernel_size=3),
        nn.Flatten(),  # before ReLU, whose backward pass would otherwise read two memory formats
        nn.ReLU(),
        nn.Linear(20 * 10 * 10, 500),
        nn.ReLU(),
        nn.Linear(500, 10),
    )


def conv3_bn() -> nn.Module:
    """Build three convolutions with BatchNorm (`rtx3090-backends`; there SGD 0.01, momentum 0.9, decay)."""

    def block(inputs: int, outputs: int, kernel_size: int, padding: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, kernel_size, padding=padding)
        return [convolution, nn.BatchNorm2d(outputs), nn.MaxPool2d(2), nn.ReLU()]

    return nn.Sequential(
        *block(1, 32, kernel_size=5, padding=2),
        *block(32, 64, kernel_size=5, padding=0),
        *block(64, 128, kernel_size=3, padding=1),
        nn.Flatten(),
        nn.Linear(128 * 2 * 2, 1024),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(1024, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )


def lenet_relu() -> nn.Module:
    """Build a LeNet with ReLU (`dataparallel-vs-ddp`; there SGD 0.1, batch 64, and a final ReLU)."""
    return nn.Sequential(
        nn.Conv2d(1, 6, kernel_size=5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(6, 16, kernel_size=3),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 5 * 5, 120),
        nn.ReLU(),
        nn.Linear(120, 60),
        nn.ReLU(),
        nn.Linear(60, 10),
    )


def mlp_128_64() -> nn.Module:
    """Build linear layers of 128 and 64 (`cpu-gpu-ddp`; there Adam 1e-3, batch 32 per process)."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(28 * 28, 128),
        nn.ReLU(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def conv2_dropout2d() -> nn.Module:
    """Build two convolutions with Dropout2d (`collectives-tutorial`; there SGD 0.01, momentum 0.5, batch 128)."""
    return nn.Sequential(
        nn.Conv2d(1, 10, kernel_size=5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(10, 20, kernel_size=5),
        nn.Dropout2d(),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(20 * 4 * 4, 50),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(50, 10),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "conv2-fc500": conv2_fc500,
    "conv3-bn": conv3_bn,
    "lenet-relu": lenet_relu,
    "mlp-128-64": mlp_128_64,
    "conv2-dropout2d": conv2_dropout2d,
}
