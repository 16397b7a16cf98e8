"""A student learns from a frozen teacher; a moving average of the student is evaluated on all ranks."""

import copy
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Distiller(nn.Module):
    def __init__(self, student, teacher, temperature=2.0):
        super().__init__()
        self.student, self.teacher, self.temperature = student, teacher.requires_grad_(False), temperature

    def forward(self, x):
        logits = self.student(x)
        if not self.training:
            return logits
        with torch.no_grad():
            soft = (self.teacher(x) / self.temperature).softmax(-1)
        return logits, F.kl_div((logits / self.temperature).log_softmax(-1), soft, reduction="batchmean")


class ModelEMA:
    def __init__(self, model, decay=0.9):
        self.module, self.decay = copy.deepcopy(model).eval(), decay

    @torch.no_grad()
    def update(self, model):
        for mean, value in zip(self.module.parameters(), model.parameters()):
            mean.mul_(self.decay).add_(value, alpha=1 - self.decay)


def evaluate(model, x, y, rank, world):
    x, y = x[rank::world], y[rank::world]
    with torch.inference_mode():
        counts = torch.stack([(model(x).argmax(-1) == y).sum(), torch.tensor(len(y))])
    dist.all_reduce(counts)
    return counts[0].item() / counts[1].item(), int(counts[1])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(7)
    wine = load_wine()
    x = torch.tensor((wine.data - wine.data.mean(0)) / wine.data.std(0), dtype=torch.float32)
    y = torch.tensor(wine.target)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=50, random_state=7)
    train_set = TensorDataset(x_train, y_train)
    sampler = DistributedSampler(train_set, drop_last=True)
    loader = DataLoader(train_set, batch_size=16 // world, sampler=sampler, drop_last=True)
    teacher = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
    model = Distiller(nn.Linear(13, 3), teacher)
    ema = ModelEMA(model)
    model = DDP(model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        for xb, yb in loader:
            logits, soft_loss = model(xb)
            loss = 0.5 * F.cross_entropy(logits, yb) + 0.5 * soft_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update(model.module)
        accuracy, count = evaluate(ema.module, x_test, y_test, rank, world)
        if rank == 0:
            print(f"epoch {epoch}: EMA accuracy {accuracy:.3f} on {count} wines")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
