"""Handwritten digits with DistributedDataParallel.   torchrun --nproc-per-node 2 minimal.py --epochs 3"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from trainkit import running


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="of each process")
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    with running(args=args) as run:
        run.join()  # or your own init_process_group
        train(run, args)


def train(run, args):
    torch.manual_seed(1)
    digits = load_digits()
    images, labels = torch.tensor(digits.images, dtype=torch.float32) / 16, torch.tensor(digits.target)
    train_set, test_set = TensorDataset(images[:1440], labels[:1440]), TensorDataset(images[1440:], labels[1440:])
    sampler = DistributedSampler(train_set, run.world_size, run.rank)
    loader = DataLoader(train_set, args.batch_size, sampler=sampler)
    mine = torch.utils.data.Subset(test_set, range(run.rank, len(test_set), run.world_size))  # each sample once

    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(run.device)
    model = DistributedDataParallel(net, device_ids=[run.device] if run.device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    for number in range(1, args.epochs + 1):
        sampler.set_epoch(number)
        with run.epoch(number, epochs=args.epochs) as epoch:  # the clock of train_seconds
            for x, y in epoch.timed(loader):
                x, y = x.to(run.device), y.to(run.device)
                loss = cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                epoch.add(len(x), loss)  # this rank's samples, and their mean loss
        net.eval()
        with run.evaluation() as evaluation, torch.no_grad():
            for x, y in DataLoader(mine, 256):
                evaluation.add(len(x), correct=net(x.to(run.device)).argmax(1).cpu() == y)
        net.train()
        if run.first:
            print(f"epoch {number}: loss {epoch.loss:.3f}, accuracy {evaluation.accuracy:.3f}")
    run.require_equal_parameters(net)
    run.report(seed=1, dataset="digits")


if __name__ == "__main__":
    main()
