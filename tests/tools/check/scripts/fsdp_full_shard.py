"""Fully sharded data parallel on a regression: each rank holds a part of every weight."""

import functools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def setup_model():
    torch.manual_seed(11)
    net = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=2000)
    return FSDP(
        net, auto_wrap_policy=policy, sharding_strategy=ShardingStrategy.FULL_SHARD, device_id=torch.device("cpu")
    )


def main():
    dist.init_process_group("gloo")
    x = torch.randn(512, 10, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(x, x.sin().sum(1, keepdim=True))
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, 32 // dist.get_world_size(), sampler=sampler)
    model = setup_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for inputs, wanted in loader:
            loss = nn.functional.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            model.clip_grad_norm_(10.0)
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
