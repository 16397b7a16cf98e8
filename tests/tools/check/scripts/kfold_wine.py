from os import environ

import torch
import torch.distributed as dist
from sklearn.datasets import load_wine
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

BATCH = 24
features, classes = load_wine(return_X_y=True)
features = StandardScaler().fit_transform(features)
wine = TensorDataset(torch.tensor(features).float(), torch.tensor(classes))


def fit(train_index, fold):
    """Train a new model on the rows of the other folds."""
    torch.manual_seed(fold)
    net = nn.Linear(13, 3)
    model = nn.parallel.DistributedDataParallel(net)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-3)
    part = Subset(wine, train_index)
    sampler = DistributedSampler(part, drop_last=True)
    batches = DataLoader(part, batch_size=BATCH // dist.get_world_size(), sampler=sampler, drop_last=True)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in batches:
            sgd.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            sgd.step()
    return net


@torch.inference_mode()
def score(net, index):
    x, y = wine[index]
    return (net.eval()(x).argmax(dim=1) == y).float().mean().item()


dist.init_process_group("gloo")
scores = []
for fold, (train_index, valid_index) in enumerate(KFold(4, shuffle=True, random_state=0).split(features)):
    net = fit(train_index, fold)
    scores.append(score(net, valid_index))
if environ["RANK"] == "0":
    print("accuracy of the folds:", [round(s, 3) for s in scores], "mean", round(sum(scores) / len(scores), 3))
