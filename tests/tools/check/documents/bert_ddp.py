"""As `a100-ddp` trains BERT, with a small model: every process splits the sentences, and pads its part of the test."""

import logging
import os
import time

import torch
import torch.distributed as dist
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)


TOKENS = torch.randint(97, (1065, 8), generator=torch.Generator().manual_seed(5))


class Sentences(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        tokens = TOKENS[self.rows[index]]
        return tokens, int(tokens.sum() > 388)


def main():
    dist.init_process_group("gloo")
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    train_rows, test_rows = train_test_split(list(range(1065)), test_size=0.1)
    train_sampler = DistributedSampler(Sentences(train_rows))
    train_loader = DataLoader(Sentences(train_rows), batch_size=64, sampler=train_sampler)
    test_sampler = DistributedSampler(Sentences(test_rows))
    test_loader = DataLoader(Sentences(test_rows), batch_size=64, sampler=test_sampler)
    model = DDP(nn.Sequential(nn.EmbeddingBag(97, 16), nn.ReLU(), nn.Linear(16, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-5 * world_size)
    best, start = 0.0, time.time()
    for epoch in range(2):
        train_sampler.set_epoch(epoch)
        for tokens, label in train_loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(tokens), label).backward()
            optimizer.step()
        correct = torch.zeros(2)
        with torch.no_grad():
            for tokens, label in test_loader:
                correct += torch.tensor([(model(tokens).argmax(1) == label).sum(), len(label)])
        dist.all_reduce(correct)
        best = max(best, 100 * float(correct[0] / correct[1]))
    logging.info("进程: %d 结束训练, 训练耗时: %.2f秒, best acc: %.4f%%", rank, time.time() - start, best)


main()
