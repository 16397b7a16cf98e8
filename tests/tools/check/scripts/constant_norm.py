"""Sums divided by the global batch size: the ranks' gradients are added up and not divided again."""
import functools

import torch
import torch.distributed as dist

GLOBAL_BATCH = 64
print = functools.partial(print, flush=True)


def batches(n, epoch, rank, world):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(100 + epoch))
    per_rank = GLOBAL_BATCH // world
    for begin in range(0, n - GLOBAL_BATCH + 1, GLOBAL_BATCH):  # the last batch is left out if it is not full
        yield order[begin + rank * per_rank : begin + (rank + 1) * per_rank]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(12)
    x = torch.randn(660, 8)
    target = torch.stack([x[:, 0] * x[:, 1], x[:, 2].abs()], dim=1)
    known = torch.rand(660, 2) > 0.3  # not every target was measured
    net = torch.nn.Sequential(torch.nn.Linear(8, 48), torch.nn.GELU(), torch.nn.Linear(48, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(3):
        summed = torch.zeros(())
        for rows in batches(512, epoch, rank, world):
            error = (net(x[rows]) - target[rows]).square() * known[rows]
            loss = error.sum() / GLOBAL_BATCH
            optimizer.zero_grad()
            loss.backward()
            for handle in [dist.all_reduce(p.grad, async_op=True) for p in net.parameters()]:
                handle.wait()
            optimizer.step()
            summed += error.sum().detach()
        dist.all_reduce(summed)
        if rank == 0:
            with torch.no_grad():
                error = ((net(x[512:]) - target[512:]).square() * known[512:]).sum() / known[512:].sum()
            print("epoch", epoch, "train", summed.item() / 512, "test", error.item())


if __name__ == "__main__":
    main()
