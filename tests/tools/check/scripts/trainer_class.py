"""Digits with a Trainer that keeps snapshots; rank 0 tests after each epoch."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, model, train_data, test_data, optimizer, snapshot):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.optimizer, self.snapshot = optimizer, snapshot
        self.model = DDP(model)
        sampler = DistributedSampler(train_data) if self.world > 1 else None
        self.train_loader = DataLoader(
            train_data, batch_size=48 // self.world, shuffle=sampler is None, sampler=sampler
        )
        self.test_loader = DataLoader(test_data, batch_size=100)

    def _run_epoch(self, epoch):
        if isinstance(self.train_loader.sampler, DistributedSampler):
            self.train_loader.sampler.set_epoch(epoch)
        self.model.train()
        for source, targets in self.train_loader:
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(source), targets)
            loss.backward()
            self.optimizer.step()

    def train(self, max_epochs):
        for epoch in range(max_epochs):
            self._run_epoch(epoch)
            if self.rank == 0:
                torch.save({"state": self.model.module.state_dict(), "epoch": epoch}, self.snapshot)
                print(f"Epoch {epoch} | accuracy {self.test():.4f} | snapshot saved")
            dist.barrier()

    @torch.no_grad()
    def test(self):
        self.model.eval()
        hits = sum((self.model.module(x).argmax(1) == y).sum().item() for x, y in self.test_loader)
        return hits / len(self.test_loader.dataset)


if __name__ == "__main__":
    snapshot = os.path.join(tempfile.mkdtemp(), "snapshot.pt")
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.data[:1257] / 16).float(), torch.tensor(digits.target[:1257]))
    train_data, test_data = torch.utils.data.random_split(data, [960, 297], torch.Generator().manual_seed(42))
    net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    Trainer(net, train_data, test_data, torch.optim.SGD(net.parameters(), lr=0.2), snapshot).train(3)
    dist.destroy_process_group()
