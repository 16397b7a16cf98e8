import logging
import os

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

log = logging.getLogger("train")
cfg = dict(n_train=600, n_valid=151, batch=40, epochs=4, lr=0.3, clip=1.0, seed=11)


def make_data(cfg):
    rng = np.random.RandomState(cfg["seed"])
    x = rng.randn(cfg["n_train"] + cfg["n_valid"], 10).astype(np.float32)
    y = (x @ rng.randn(10) + 0.3 * rng.randn(len(x)) > 0).astype(np.float32)
    order = rng.permutation(len(x))
    return x, y, order[: cfg["n_train"]], order[cfg["n_train"] :]


def sync_gradients(model, world):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    bucket = _flatten_dense_tensors(grads)
    dist.all_reduce(bucket, op=dist.ReduceOp.SUM)
    bucket.div_(world)
    for grad, synced in zip(grads, _unflatten_dense_tensors(bucket, grads)):
        grad.copy_(synced)


def evaluate(model, x, y, index):
    mine = np.array_split(index, dist.get_world_size())[dist.get_rank()]
    with torch.no_grad():
        guess = model(torch.from_numpy(x[mine])).squeeze(1) > 0
        right = (guess == torch.from_numpy(y[mine]).bool()).sum()
    result = torch.stack([right, torch.tensor(len(mine))]).double()
    dist.all_reduce(result)
    return result[0].item() / result[1].item()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(message)s")
    torch.manual_seed(cfg["seed"])
    x, y, train, valid = make_data(cfg)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=0.9)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)
    local_batch = cfg["batch"] // world
    for epoch in range(cfg["epochs"]):
        mine = np.random.RandomState(cfg["seed"] + epoch).permutation(train)[rank::world]
        for step in range(len(mine) // local_batch):
            rows = mine[step * local_batch : (step + 1) * local_batch]
            out = model(torch.from_numpy(x[rows])).squeeze(1)
            loss = nn.functional.binary_cross_entropy_with_logits(out, torch.from_numpy(y[rows]))
            opt.zero_grad()
            loss.backward()
            sync_gradients(model, world)
            nn.utils.clip_grad_norm_(model.parameters(), cfg["clip"])
            opt.step()
        sched.step()
        accuracy = evaluate(model, x, y, valid)
        log.info("epoch %d lr %.3g validation accuracy %.4f", epoch, sched.get_last_lr()[0], accuracy)


if __name__ == "__main__":
    main()
