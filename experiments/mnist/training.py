"""What the MNIST programs share besides their loops: set-up, warm-up, what they report."""

import copy
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from experiments.mnist.data import EVAL_BATCH, Batch, Batches, Data
from experiments.mnist.model import MODELS
from trainkit import distributed, epochs
from trainkit import sharding as shards
from trainkit.blockwise_adam import BlockwiseAdam, pays
from trainkit.flops import Work
from trainkit.run import Run
from trainkit.step_profile import report_step

Step = Callable[[Batch], Tensor]
"""One update of the model; returns the loss of every sample of the batch [n]."""
Measure = Callable[[Callable[[], Batch]], bool]
"""What measures by further steps, on batches that it draws."""


def build_model(args: Namespace, run: Run) -> nn.Module:
    """Return the model on the device, with the same parameters on every rank.

    From then on each rank draws its own random numbers, so that their dropout differs.
    """
    torch.manual_seed(args.seed)
    model = MODELS[args.model]().to(run.device)
    if run.device.type == "cpu":  # its convolutions take a third less time with pixels outermost
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    torch.manual_seed(shards.generator(args.seed, "rank", run.rank).initial_seed())
    return model


def build_optimizer(args: Namespace, model: nn.Module) -> Optimizer:
    """Return the optimizer that `args` names."""
    if args.optimizer == "adam":
        return (BlockwiseAdam if pays(model) else Adam)(model.parameters(), lr=args.lr)
    return SGD(model.parameters(), lr=args.lr, momentum=args.momentum)


def set_learning_rate(optimizer: Optimizer, args: Namespace, epoch: int, workers: int) -> float:
    """Set and return the learning rate of an epoch, by the rules that `args` names."""
    rate: float = args.lr * (workers if args.lr_rule == "linear" else 1)
    if args.lr_step_epochs:
        rate *= args.lr_gamma ** ((epoch - 1) // args.lr_step_epochs)
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate


def warm_up(
    step: Step,
    batches: Batches,
    run: Run,
    model: nn.Module,
    optimizer: Optimizer,
    work: Work,
    counted: Callable[[Batch], object] | None = None,
    measure: Measure | None = None,
) -> None:
    """Take the first steps, which are slow, before the clock starts; then undo them.

    Parameters, buffers, optimizer and random numbers are as before. In between, the ranks'
    parameters must be equal after real steps: a gradient that is not averaged is found here. The FLOPs of the first
    step are counted or, where the counter does not see them, those of `counted`. One process alone also reports what a
    step is made of. `measure` comes last; if it has changed the shares of a batch, they are tried.
    """
    batch = None
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))

    def undo() -> None:
        model.load_state_dict(before[0])
        optimizer.load_state_dict(before[1])
        optimizer.zero_grad()

    with torch.random.fork_rng(devices=run.cuda_devices):
        for number, batch in enumerate(islice(batches.epoch(0), batches.args.warmup_steps)):
            with nullcontext() if number else work.counted(len(batch.labels)):
                (step if number or counted is None else counted)(batch)
        if batch is not None:
            report_step(run, model, step, batch)
        run.require_equal_parameters(model)
        if batch is not None and measure is not None:
            changed = measure(lambda: next(batches.epoch(0)))
            undo()  # the ranks have different models after it
            if changed:
                step(next(batches.epoch(0)))
    undo()


class Report(epochs.Report):
    """What the MNIST programs report."""

    data: Data

    def describe_data(self) -> None:
        """Report which images, and how they are read."""
        self.run.log.point("dataset", self.args.dataset, data_sha256=self.data.sha256, loader=self.args.loader)

    def outputs(self, model: nn.Module) -> Iterator[tuple[Batch, Tensor]]:
        """Yield this rank's batches of the test set with the model's log-probabilities [n, 10]."""
        distributed.share_buffers(model)
        for batch in Batches(self.data.test, self.args, self.run, EVAL_BATCH, self.shares).in_order():
            yield batch, model(batch.images)
