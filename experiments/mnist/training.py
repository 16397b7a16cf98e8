"""Model, optimizer and reports of the MNIST programs."""

from argparse import Namespace
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from experiments.mnist.data import EVAL_BATCH, Batch, Batches, Data
from experiments.mnist.model import MODELS
from trainkit import distributed, epochs
from trainkit import sharding as shards
from trainkit.run import Run


def build_model(args: Namespace, run: Run) -> nn.Module:
    """Return the model on the device, with equal parameters on every rank.

    Afterwards ranks draw different random numbers, so that their dropout differs.
    """
    torch.manual_seed(args.seed)
    model = MODELS[args.model]().to(run.device)
    if run.device.type == "cpu":  # its convolutions take a third less time in channels-last format
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    torch.manual_seed(shards.generator(args.seed, "rank", run.rank).initial_seed())
    return model


def build_optimizer(args: Namespace, model: nn.Module) -> Optimizer:
    """Return the optimizer that `args` names."""
    if args.optimizer == "adam":
        return Adam(model.parameters(), lr=args.lr)
    return SGD(model.parameters(), lr=args.lr, momentum=args.momentum)


def set_learning_rate(optimizer: Optimizer, args: Namespace, epoch: int, workers: int) -> float:
    """Set and return the learning rate of an epoch, by `--lr-rule` and `--lr-step-epochs`."""
    rate: float = args.lr * (workers if args.lr_rule == "linear" else 1)
    if args.lr_step_epochs:
        rate *= args.lr_gamma ** ((epoch - 1) // args.lr_step_epochs)
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate


class Report(epochs.Report):
    """Adds the MNIST data to the common report."""

    data: Data

    def describe_data(self) -> None:
        """Report the data set and its loader."""
        self.run.log.point("dataset", self.args.dataset, data_sha256=self.data.sha256, loader=self.args.loader)

    def outputs(self, model: nn.Module) -> Iterator[tuple[Batch, Tensor]]:
        """Yield this rank's test batches with the model's logits [n, 10]."""
        distributed.share_buffers(model)
        for batch in Batches(self.data.test, self.args, self.run, EVAL_BATCH, self.shares).in_order():
            yield batch, model(batch.images)
