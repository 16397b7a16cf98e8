"""Plain SGD on each rank; the parameters are averaged behind every step, which is the same as averaged gradients."""

import os

import torch
import torch.distributed as dist

FEATURES, ROWS, STEPS = 12, 600, 40


class PeriodicAverager:
    def __init__(self, module, period):
        self.module, self.period, self.step_count = module, period, 0

    @torch.no_grad()
    def average(self):
        self.step_count += 1
        if self.step_count % self.period == 0:
            for parameter in self.module.parameters():
                dist.all_reduce(parameter.data)
                parameter.data /= dist.get_world_size()


def minibatches(x, y, size, epochs):
    for epoch in range(epochs):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        for start in range(0, len(x) - size + 1, size):
            chosen = order[start : start + size]
            yield x[chosen], y[chosen]


def main(rank, world_size):
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(ROWS, FEATURES, generator=generator)
    y = (x @ torch.randn(FEATURES, 1, generator=generator)).sigmoid().round()
    model = torch.nn.Linear(FEATURES, 1)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    averager = PeriodicAverager(model, period=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    local = slice(rank * ROWS // world_size, (rank + 1) * ROWS // world_size)
    for step, (xb, yb) in enumerate(minibatches(x[local], y[local], 30 // world_size, 2)):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(xb), yb).backward()
        optimizer.step()
        averager.average()
        if step % 10 == 9 and rank == 0:
            accuracy = ((model(x) > 0) == (y > 0.5)).float().mean().item()
            print(f"step {step + 1}: accuracy on all rows {accuracy:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
