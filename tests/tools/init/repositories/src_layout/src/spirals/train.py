"""Train the classifier; started by torchrun it shares every epoch among its processes."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from .data import spirals
from .engine import evaluate, train_one_epoch


def main() -> None:
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    sampler = DistributedSampler(train := spirals(2048))
    loader = DataLoader(train, batch_size=64, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    began = time.perf_counter()
    for epoch in range(1, 4):
        sampler.set_epoch(epoch)
        loss = train_one_epoch(model, loader, optimizer)
        if int(os.environ["RANK"]) == 0:
            print(f"Epoch {epoch}/3, Loss: {loss:.4f}")
    if dist.get_rank() == 0:
        accuracy = evaluate(model.module, DataLoader(spirals(512, seed=1), batch_size=128))
        print(f"Test Accuracy: {100 * accuracy:.2f}%")
        print(f"Training time: {time.perf_counter() - began:.3f} seconds")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
