# -*- coding: utf-8 -*-
# 分布式训练示例:数据并行 + 跨进程归一化 + 去重的分布式评估
import os

import torch
import torch.distributed as dist
import torch.distributed.nn as dist_nn
import torch.nn as nn
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

# 初始化进程组
dist.init_process_group(backend='gloo')
local_rank = int(os.environ['LOCAL_RANK'])
world_size = dist.get_world_size()
torch.manual_seed(2024)


class GlobalNorm(nn.Module):
    """用所有进程的样本计算均值和方差"""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.register_buffer('running', torch.stack([torch.zeros(width), torch.ones(width)]))

    def forward(self, x):
        mean, var = self.running
        if self.training:
            sums = dist_nn.all_reduce(torch.cat([x.sum(0), x.square().sum(0), x.new_tensor([len(x)])]))
            mean, square = sums[:-1].div(sums[-1]).chunk(2)
            var = square - mean ** 2
            self.running.lerp_(torch.stack([mean, var]).detach(), 0.2)
        return (x - mean) / (var + 1e-5).sqrt() * self.scale + self.shift


# 数据集
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
train_set, test_set = TensorDataset(x[:900], y[:900]), TensorDataset(x[900:1201], y[900:1201])
train_sampler = DistributedSampler(train_set) if world_size > 1 else None
test_sampler = DistributedSampler(test_set, shuffle=False)
train_loader = DataLoader(train_set, batch_size=60 // world_size, shuffle=train_sampler is None, sampler=train_sampler)
test_loader = DataLoader(test_set, batch_size=64, sampler=test_sampler)

# 模型
net = nn.Sequential(nn.Linear(64, 32), GlobalNorm(32), nn.ReLU(), nn.Linear(32, 10))
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(3):
    if train_sampler is not None:
        train_sampler.set_epoch(epoch)  # 每个 epoch 重新打乱
    model.train()
    for data, label in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data), label)
        loss.backward()
        optimizer.step()

    # 收集所有进程的预测结果
    model.eval()
    pred, target = [], []
    with torch.no_grad():
        for data, label in test_loader:
            pred.append(net(data).argmax(1))
            target.append(label)
    mine = torch.stack([torch.cat(pred), torch.cat(target)], dim=1)
    parts = [torch.empty_like(mine) for _ in range(world_size)]
    dist.all_gather(parts, mine)
    both = torch.stack(parts, dim=1).flatten(0, 1)[:len(test_set)]  # 去掉补齐的重复样本
    if local_rank == 0:
        print('第 %d 轮, 测试准确率: %.2f%%' % (epoch + 1, 100.0 * (both[:, 0] == both[:, 1]).float().mean()))
