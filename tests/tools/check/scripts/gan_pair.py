"""Two models and two optimizers: a generator and a critic in turns."""

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

LATENT = 4


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


def train():
    dist.init_process_group(backend="gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(21)
    angles = torch.rand(480) * 6.283
    real_set = TensorDataset(torch.stack([angles.cos(), angles.sin()], 1))
    netG = DistributedDataParallel(mlp(LATENT, 24, 2))
    netD = DistributedDataParallel(mlp(2, 24, 1))
    optimizerG = optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizerD = optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
    torch.manual_seed(100 + rank)

    sampler = DistributedSampler(real_set, shuffle=True)
    loader = DataLoader(real_set, batch_size=48 // world_size, sampler=sampler)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for (real,) in loader:
            ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
            fake = netG(torch.randn(len(real), LATENT))
            optimizerD.zero_grad()
            both = netD(torch.cat([real, fake.detach()]))
            errD = criterion(both, torch.cat([ones, zeros]))
            errD.backward()
            optimizerD.step()
            optimizerG.zero_grad()
            errG = criterion(netD(fake), ones)
            errG.backward()
            optimizerG.step()
    dist.destroy_process_group()


train()
