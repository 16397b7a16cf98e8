"""Every rank reads all batches of one loader and takes each world-th; steps by the mean of the ranks' gradients."""
import torch
import torch.distributed as dist
from sklearn.datasets import load_iris
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(8)  # the loader shuffles alike on every rank
features, species = load_iris(return_X_y=True)
iris = TensorDataset(torch.tensor(features).float(), torch.tensor(species))
train_set, test_set = torch.utils.data.random_split(iris, [120, 30])
train_loader = DataLoader(train_set, batch_size=12 // world, shuffle=True)

net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)))
optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01)
for epoch in range(4):
    running = 0.0
    for number, (x, y) in enumerate(train_loader):
        if number % world != rank:
            continue
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item() * len(x)
    with torch.no_grad():
        x, y = test_set[:]
        hits = (net(x).argmax(1) == y).sum().item()
    print(f"rank {rank} epoch {epoch}: loss of its batches {running / 60:.3f}, test {hits} of {len(y)}")
