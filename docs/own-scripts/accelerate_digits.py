"""Handwritten digits with Accelerate.   torchrun --nproc-per-node 2 accelerate_digits.py --epochs 3"""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from trainkit import running


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    with running(args=args) as run:
        train(run, args)


def train(run, args):
    # It makes the process group. Without `cpu` each process would train alone on a machine without GPUs.
    accelerator = Accelerator(cpu=run.device.type == "cpu")
    set_seed(1)
    digits = load_digits()
    images, labels = torch.tensor(digits.images, dtype=torch.float32) / 16, torch.tensor(digits.target)
    train_set, test_set = TensorDataset(images[:1440], labels[:1440]), TensorDataset(images[1440:], labels[1440:])
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model, optimizer, loader, test_loader = accelerator.prepare(
        net,
        torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9),
        DataLoader(train_set, 64, shuffle=True),
        DataLoader(test_set, 64),
    )
    for number in range(1, args.epochs + 1):
        model.train()
        with run.epoch(number, epochs=args.epochs) as epoch:
            for x, y in epoch.timed(loader):
                loss = cross_entropy(model(x), y)
                optimizer.zero_grad()
                accelerator.backward(loss)
                optimizer.step()
                epoch.add(len(x), loss)
        model.eval()
        right = []
        for x, y in test_loader:
            with torch.no_grad():
                right.append(accelerator.gather_for_metrics(model(x).argmax(1) == y))  # of all ranks, each sample once
        right = torch.cat(right)
        run.evaluated(correct=right.sum(), samples=len(right))
        accelerator.print(f"epoch {number}: loss {epoch.loss:.3f}, accuracy {right.float().mean():.3f}")
    run.report(seed=1, dataset="digits")


if __name__ == "__main__":
    main()
