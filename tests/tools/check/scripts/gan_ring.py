"""A small GAN learns points of a ring: two models, two optimizers."""
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def mlp(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 32), nn.LeakyReLU(0.2), nn.Linear(32, n_out))


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(99)
    angle = torch.rand(512) * 2 * math.pi
    real_points = torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(512, 2)
    latent = torch.randn(512, 4)  # each point has a latent of its own
    dataset = TensorDataset(real_points, latent)
    sampler = DistributedSampler(dataset, shuffle=True, seed=99)
    loader = DataLoader(dataset, batch_size=64 // world_size, sampler=sampler)

    netG, netD = DDP(mlp(4, 2)), DDP(mlp(2, 1))
    optG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(4):
        sampler.set_epoch(epoch)
        total = torch.zeros(2)
        for real, z in loader:
            ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
            fake = netG(z)
            # (1) discriminator: one pass over both, as DDP wants one forward for each backward
            lossD = bce(netD(torch.cat([real, fake.detach()])), torch.cat([ones, zeros]))
            optD.zero_grad()
            lossD.backward()
            optD.step()
            # (2) generator
            lossG = bce(netD(fake), ones)
            optG.zero_grad()
            lossG.backward()
            optG.step()
            total += torch.tensor([lossD.item(), lossG.item()]) / len(loader)
        dist.all_reduce(total)
        total /= world_size
        if rank == 0:
            print(f"[{epoch}] Loss_D: {total[0]:.4f} Loss_G: {total[1]:.4f}")


if __name__ == "__main__":
    main()
