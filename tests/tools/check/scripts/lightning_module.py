"""A Lightning module with a data module; Lightning wraps it and shares the samples out."""

import logging
import os
import warnings

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))


class Rings(pl.LightningDataModule):
    def setup(self, stage):
        generator = torch.Generator().manual_seed(0)
        points = torch.randn(768, 2, generator=generator)
        data = TensorDataset(points, (points.norm(dim=1) > 1.2).float())
        self.train, self.val = torch.utils.data.random_split(data, [512, 256], generator=generator)

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=32 // WORLD_SIZE, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=32)


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 1), nn.Flatten(0))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(x), y)
        self.log("train_loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        accuracy = ((self.net(x) > 0) == (y > 0.5)).float().mean()
        self.log("val_accuracy", accuracy, sync_dist=True, on_epoch=True)

    def on_train_epoch_end(self):
        if self.global_rank == 0:
            print(f"epoch {self.current_epoch}: val_accuracy {self.trainer.callback_metrics['val_accuracy']:.4f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.02)


if __name__ == "__main__":
    pl.seed_everything(1)
    trainer = pl.Trainer(
        accelerator="cpu", devices=WORLD_SIZE, strategy="ddp", max_epochs=2, logger=False, num_sanity_val_steps=0,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Classifier(), datamodule=Rings())
