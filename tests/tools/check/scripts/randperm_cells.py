# %% [markdown]
# # A regression with plain torch.distributed
# %%
import torch
import torch.distributed as dist
from torch import nn

SEED, GLOBAL_BATCH, EPOCHS = 3, 32, 4
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

# %% data: the same on every rank
g = torch.Generator().manual_seed(SEED)
X = torch.randn(619, 6, generator=g)
y = torch.sin(X.sum(1, keepdim=True)) + 0.1 * torch.randn(619, 1, generator=g)
X_train, y_train, X_test, y_test = X[:512], y[:512], X[512:], y[512:]

# %% model: every rank starts from the weights of rank 0
net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
for p in net.parameters():
    dist.broadcast(p.data, src=0)
opt = torch.optim.SGD(net.parameters(), lr=0.05)


# %%
def test_error():
    """Mean squared error; the shards have 54 and 53 rows, so sums are reduced and not means."""
    with torch.no_grad():
        part = net(X_test[rank::world])
        sums = torch.tensor([(part - y_test[rank::world]).square().sum(), len(part)])
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()


print("before training:", round(test_error(), 4)) if rank == 0 else test_error()

# %% training
for epoch in range(EPOCHS):
    perm = torch.randperm(len(X_train), generator=torch.Generator().manual_seed(SEED + epoch))
    for start in range(0, len(perm), GLOBAL_BATCH):
        rows = perm[start : start + GLOBAL_BATCH][rank::world]
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(X_train[rows]), y_train[rows])
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
    error = test_error()
    if rank == 0:
        print("epoch", epoch, "test mse", round(error, 4))
