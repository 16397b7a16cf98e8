"""Handwritten digits with Lightning.   torchrun --nproc-per-node 2 lightning_digits.py --epochs 3"""

import argparse
import warnings

import pytorch_lightning as pl
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from trainkit import running
from trainkit.lightning import EventLines


class Digits(pl.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return cross_entropy(self.net(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        self.log("val_loss", cross_entropy(logits, y), sync_dist=True)
        self.log("val_acc", (logits.argmax(1) == y).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    pl.seed_everything(1)
    digits = load_digits()
    images, labels = torch.tensor(digits.images, dtype=torch.float32) / 16, torch.tensor(digits.target)
    train_set, val_set = TensorDataset(images[:1440], labels[:1440]), TensorDataset(images[1440:], labels[1440:])
    with running(args=args) as run:
        trainer = pl.Trainer(
            max_epochs=args.epochs,
            devices=run.local_world_size,  # what torchrun has started
            num_nodes=run.world_size // run.local_world_size,
            strategy="ddp" if run.world_size > 1 else "auto",
            callbacks=[EventLines(run)],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
        )
        trainer.fit(Digits(args.lr), DataLoader(train_set, 64, shuffle=True), DataLoader(val_set, 64))
        run.report(seed=1, dataset="digits")


if __name__ == "__main__":
    main()
