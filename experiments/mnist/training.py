"""What the MNIST programs share besides their loops: set-up, the epoch's clock, the test."""

import copy
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, Optimizer

from experiments import distributed, facts, shards
from experiments.mnist.data import EVAL_BATCH, Batch, Batches, Data
from experiments.mnist.model import MODELS
from experiments.run import Run

Step = Callable[[Batch], Tensor]
"""One update of the model; returns the loss of every sample of the batch [n]."""


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
        return Adam(model.parameters(), lr=args.lr)
    return SGD(model.parameters(), lr=args.lr, momentum=args.momentum)


def set_learning_rate(optimizer: Optimizer, args: Namespace, epoch: int, workers: int) -> float:
    """Set and return the learning rate of an epoch, by the rules that `args` names."""
    rate: float = args.lr * (workers if args.lr_rule == "linear" else 1)
    if args.lr_step_epochs:
        rate *= args.lr_gamma ** ((epoch - 1) // args.lr_step_epochs)
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate


def warm_up(step: Step, batches: Batches, run: Run, model: nn.Module, optimizer: Optimizer) -> None:
    """Take the first steps, which are slow, before the clock starts; then undo them.

    Parameters, buffers, optimizer and random numbers are as before. In between, the ranks'
    parameters must be equal after real steps: here a gradient that is not averaged shows.
    """
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    with torch.random.fork_rng(devices=run.cuda_devices):
        for batch in islice(batches.epoch(0), batches.args.warmup_steps):
            step(batch)
    run.require_equal_parameters(model)
    model.load_state_dict(before[0])
    optimizer.load_state_dict(before[1])
    optimizer.zero_grad()


@dataclass
class Totals:
    """What an epoch adds up; on the device, so that no step waits for the host."""

    loss_sum: Tensor
    on_progress: Callable[[int], None]
    samples: int = 0
    global_samples: int = 0
    steps: int = 0

    def add(self, batch: Batch, losses: Tensor) -> None:
        """Count a step: the losses [n] of this rank's samples, without its stand-in."""
        self.loss_sum += losses[: batch.samples].sum(dtype=torch.float64)
        self.samples += batch.samples
        self.global_samples += batch.global_samples
        self.steps += 1
        self.on_progress(self.global_samples)


@dataclass
class Report:
    """Tells what happens, as event lines, and remembers what the last of them sum up."""

    run: Run
    data: Data
    args: Namespace
    batch_size: int
    """The global one."""
    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Say what is trained on."""
        if self.run.first:
            log = self.run.log
            log.point("seed", self.args.seed)
            log.point("global_batch_size", self.batch_size)
            log.point("train_samples", len(self.data.train))
            log.point("eval_samples", len(self.data.test))
            log.point("dataset", self.args.dataset, data_sha256=self.data.sha256, loader=self.args.loader)

    @contextmanager
    def epoch(self, epoch: int, lr: float) -> Iterator[Totals]:
        """Run the clock of `train_seconds` around a block that trains one epoch."""
        run, count = self.run, len(self.data.train)
        next_progress = time.monotonic() + 1

        def on_progress(samples: int) -> None:
            nonlocal next_progress
            if run.first and time.monotonic() >= next_progress:
                next_progress = time.monotonic() + 1
                run.log.point("progress", samples, epoch_num=epoch, train_samples=count)

        zero = torch.zeros((), dtype=torch.float64, device=run.device)
        totals = Totals(zero, on_progress)
        with run.phase("epoch", epoch_num=epoch, epochs=self.args.epochs) as phase:
            yield totals
            seconds = phase.stop_clock()
            phase.metadata |= {
                "train_seconds": seconds,
                "samples": totals.samples,
                "steps": totals.steps,
            }
            loss_sum, trained = distributed.total(totals.loss_sum, totals.samples)
            require_count("trained on", trained, count)
            loss = loss_sum / count
            if run.first:
                phase.metadata |= {
                    "trained_samples": int(trained),
                    "loss": loss,
                    "loss_hex": loss.hex(),
                    "lr": lr,
                    "global_batch_size": self.batch_size,
                }
        self.train_seconds += seconds
        self.losses.append(loss)

    def evaluate(self, model: nn.Module, epoch: int) -> None:
        """Test the model on exact shards of the test set; every sample counts once."""
        run, count = self.run, len(self.data.test)
        loss_sum = torch.zeros((), dtype=torch.float64, device=run.device)
        correct = torch.zeros((), dtype=torch.int64, device=run.device)
        samples = 0
        model.eval()
        with run.phase("eval", epoch_num=epoch) as phase, torch.no_grad():
            distributed.share_buffers(model)
            for batch in Batches(self.data.test, self.args, run, EVAL_BATCH).in_order():
                logits = model(batch.images)[: batch.samples]
                labels = batch.labels[: batch.samples]
                losses = cross_entropy(logits, labels, reduction="none")
                loss_sum += losses.sum(dtype=torch.float64)
                correct += (logits.argmax(dim=1) == labels).sum()
                samples += batch.samples
            phase.metadata["samples"] = samples
            all_correct, tested, loss = distributed.total(correct, samples, loss_sum)
            self.eval_seconds += phase.stop_clock()
        model.train()
        require_count("tested on", tested, count)
        loss /= count
        self.accuracies.append(all_correct / count)
        if run.first:
            run.log.point(
                "eval_accuracy",
                self.accuracies[-1],
                epoch_num=epoch,
                correct=int(all_correct),
                samples=count,
                loss=loss,
                loss_hex=loss.hex(),
            )

    def finish(self, model: nn.Module) -> None:
        """Compare the ranks' parameters and sum up; best and final accuracy are both told."""
        sha256 = self.run.require_equal_parameters(model)
        self.run.log.point("parameters", sha256, equal_on_all_ranks=True)
        trained = len(self.data.train) * self.args.epochs
        stats: dict[str, float] = {
            "train_seconds": self.train_seconds,
            "eval_seconds": self.eval_seconds,
            **facts.peak_memory(self.run.device),
            "samples_per_second": trained / self.train_seconds,
        }
        if self.run.first:
            best = max(self.accuracies)
            stats |= {
                "final_accuracy": self.accuracies[-1],
                "best_accuracy": best,
                "best_epoch": 1 + self.accuracies.index(best),
                "final_loss": self.losses[-1],
            }
        self.run.log.point("tracked_stats", stats)


def require_count(did: str, counted: float, count: int) -> None:
    """Raise where the ranks together did not see each sample once."""
    if counted != count:
        message = f"{int(counted)} samples were {did}; the set has {count}"
        raise RuntimeError(message)
