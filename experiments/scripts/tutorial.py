"""A classifier in the style of tutorials: an example of a script that does not use this project."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def samples(count, seed):
    """Points in 20 dimensions; the class is the nearest of ten directions."""
    directions = torch.randn(10, 20, generator=torch.Generator().manual_seed(0))
    points = torch.randn(count, 20, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(points, (points @ directions.T).argmax(1))


def train(dataloader, model, loss_fn, optimizer, device):
    size = len(dataloader.sampler)
    model.train()
    for batch, (X, y) in enumerate(dataloader):
        X, y = X.to(device), y.to(device)
        pred = model(X)
        loss = loss_fn(pred, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if batch % 20 == 0:
            current = (batch + 1) * len(X)
            print(f"loss: {loss.item():>7f}  [{current:>5d}/{size:>5d}]")


def test(dataloader, model, loss_fn, device):
    size = len(dataloader.dataset)
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for X, y in dataloader:
            X, y = X.to(device), y.to(device)
            pred = model(X)
            test_loss += loss_fn(pred, y).item()
            correct += (pred.argmax(1) == y).type(torch.float).sum().item()
    test_loss /= len(dataloader)
    correct /= size
    print(f"Test Error: \n Accuracy: {(100 * correct):>0.1f}%, Avg loss: {test_loss:>8f} \n")


def main(epochs, batch_size):
    device = f"cuda:{os.environ['LOCAL_RANK']}" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    print(f"rank: {dist.get_rank()}, world size: {dist.get_world_size()}")
    training_data, test_data = samples(20_000, 1), samples(2_000, 2)
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(20, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    model = DDP(model.to(device))
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = DistributedSampler(training_data)
    since = time.time()
    for t in range(epochs):
        print(f"Epoch {t + 1}\n-------------------------------")
        sampler.set_epoch(t)
        train(DataLoader(training_data, batch_size, sampler=sampler), model, loss_fn, optimizer, device)
        test(DataLoader(test_data, 500), model, loss_fn, device)
    time_elapsed = time.time() - since
    print(f"Training complete in {time_elapsed // 60:.0f}m {time_elapsed % 60:.0f}s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, 64)
