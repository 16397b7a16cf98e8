"""Handwritten digits with DistributedDataParallel: an example of a script that does not use this project."""

import argparse
import gzip
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)


def load(folder, name):
    with gzip.open(os.path.join(folder, name + "-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 8, 8)
    with gzip.open(os.path.join(folder, name + "-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return TensorDataset(torch.tensor(images / 16.0, dtype=torch.float32), torch.tensor(labels, dtype=torch.long))


def train(args, model, device, loader, sampler, optimizer, epoch):
    model.train()
    sampler.set_epoch(epoch)
    for batch, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch % args.log_interval == 0 and dist.get_rank() == 0:
            print("Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}".format(
                epoch, batch * len(data), len(sampler), 100.0 * batch / len(loader), loss.item()))


def test(model, device, loader):
    model.eval()
    loss, correct = 0, 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            loss += F.nll_loss(output, target, reduction="sum").item()
            correct += output.argmax(1).eq(target).sum().item()
    print("\nTest set: Average loss: {:.4f}, Accuracy: {}/{} ({:.0f}%)\n".format(
        loss / len(loader.dataset), correct, len(loader.dataset), 100.0 * correct / len(loader.dataset)))


def main():
    parser = argparse.ArgumentParser(description="Handwritten digits, in any number of processes")
    parser.add_argument("--folder", default="experiments/mnist/digits", help="where the IDX files are")
    parser.add_argument("--batch-size", type=int, default=64, help="images of one process in a step")
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--no-cuda", action="store_true", default=False)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    use_cuda = not args.no_cuda and torch.cuda.is_available()
    dist.init_process_group("nccl" if use_cuda else "gloo")
    torch.manual_seed(args.seed)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if use_cuda else torch.device("cpu")

    train_set, test_set = load(args.folder, "train"), load(args.folder, "t10k")
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, args.batch_size, sampler=sampler)
    model = DistributedDataParallel(Net().to(device))
    optimizer = optim.Adam(model.parameters(), lr=args.lr)
    start = time.time()
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, loader, sampler, optimizer, epoch)
        if dist.get_rank() == 0:
            test(model.module, device, DataLoader(test_set, 1000))
    if dist.get_rank() == 0:
        print("Training completed in {:.2f} seconds".format(time.time() - start))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
