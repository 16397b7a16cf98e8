"""A classifier with Accelerate: it prepares everything, accumulates, and gathers predictions without repeats."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

config = {"lr": 0.05, "epochs": 2, "batch_size": 32, "seed": 13}


def get_dataloaders(batch_size):
    digits = load_digits()
    images, targets = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    train = TensorDataset(images[:1280], targets[:1280])
    test = TensorDataset(images[1280:], targets[1280:])
    return DataLoader(train, batch_size, shuffle=True, drop_last=True), DataLoader(test, 64)


def training_function(config):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(config["seed"])
    train_dataloader, eval_dataloader = get_dataloaders(config["batch_size"] // accelerator.num_processes)
    model = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20)
    model, optimizer, train_dataloader, eval_dataloader, scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, eval_dataloader, scheduler
    )
    for epoch in range(config["epochs"]):
        model.train()
        for images, targets in train_dataloader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(images), targets)
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        model.eval()
        predictions, references = [], []
        for images, targets in eval_dataloader:
            with torch.no_grad():
                outputs = model(images).argmax(dim=-1)
            outputs, targets = accelerator.gather_for_metrics((outputs, targets))
            predictions.append(outputs)
            references.append(targets)
        correct = torch.cat(predictions) == torch.cat(references)
        accelerator.print(f"epoch {epoch}: accuracy {correct.float().mean().item():.4f} of {len(correct)}")


if __name__ == "__main__":
    training_function(config)
