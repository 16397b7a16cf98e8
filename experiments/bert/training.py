"""What the BERT programs share besides their loops: warm-up, the epoch's clock, the test."""

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
from torch.optim import Optimizer

from experiments import distributed, facts
from experiments.bert.data import EVAL_BATCH, Batch, Batches, Data
from experiments.bert.model import autocast
from experiments.bert.sentences import of_files
from experiments.run import Run

Step = Callable[[Batch], Tensor]
"""One update of the model; returns the loss of every sentence of the batch [n]."""


def warm_up(step: Step, batches: Batches, run: Run, args: Namespace, model: nn.Module, optimizer: Optimizer) -> None:
    """Take the first steps, which are slow, before the clock starts; then undo them.

    They have the longest sentences: what fits into the memory now will fit later. In between, the ranks' parameters
    must be equal after real steps: here a gradient that is not averaged shows.
    """
    before = {name: value.to("cpu", copy=True) for name, value in model.state_dict().items()}
    fresh = copy.deepcopy(optimizer.state_dict())
    with torch.random.fork_rng(devices=run.cuda_devices):
        for batch in islice(batches.longest_first(), args.warmup_steps):
            step(batch)
    run.require_equal_parameters(model)
    model.load_state_dict(before)
    optimizer.load_state_dict(fresh)
    optimizer.zero_grad()


@dataclass
class Totals:
    """What an epoch adds up; on the device, so that no step waits for the host."""

    loss_sum: Tensor
    on_progress: Callable[[int], None]
    samples: int = 0
    global_samples: int = 0
    steps: int = 0
    places: int = 0
    """Tokens and padding."""

    def add(self, batch: Batch, losses: Tensor) -> None:
        """Count a step: the losses [n] of this rank's samples, without its stand-in."""
        self.loss_sum += losses[: batch.samples].sum(dtype=torch.float64)
        self.samples += batch.samples
        self.global_samples += batch.global_samples
        self.places += batch.tokens.numel()
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
        """Say what is trained on, and what is trained."""
        if self.run.first:
            log, data = self.run.log, self.data
            log.point("seed", self.args.seed)
            log.point("global_batch_size", self.batch_size)
            log.point("train_samples", len(data.train))
            log.point("eval_samples", len(data.test))
            log.point("dataset", data.source, data_sha256=of_files(data.files), split_sha256=data.split_sha256)
            log.point("files", sha256=data.files)

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
            phase.metadata |= {"train_seconds": seconds, "samples": totals.samples, "steps": totals.steps}
            loss_sum, trained, places = distributed.total(totals.loss_sum, totals.samples, totals.places)
            require_count("trained on", trained, count)
            loss = loss_sum / count
            if run.first:
                phase.metadata |= {
                    "trained_samples": int(trained),
                    "loss": loss,
                    "loss_hex": loss.hex(),
                    "lr": lr,
                    "global_batch_size": self.batch_size,
                    "padding": 1 - int(self.data.train.lengths.sum()) / places,
                }
        self.train_seconds += seconds
        self.losses.append(loss)

    def evaluate(self, model: nn.Module, epoch: int) -> None:
        """Test the model on exact shards of the test set; every sentence counts once."""
        run, count = self.run, len(self.data.test)
        loss_sum = torch.zeros((), dtype=torch.float64, device=run.device)
        correct = torch.zeros((), dtype=torch.int64, device=run.device)
        samples = 0
        model.eval()
        with run.phase("eval", epoch_num=epoch) as phase, torch.no_grad(), autocast(self.args, run):
            for batch in Batches(self.data.test, self.args.seed, run, EVAL_BATCH).longest_first():
                logits = model(batch.tokens, attention_mask=batch.mask).logits[: batch.samples]
                labels = batch.labels[: batch.samples]
                loss_sum += cross_entropy(logits.float(), labels, reduction="none").sum(dtype=torch.float64)
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
        stats: dict[str, float] = {
            "train_seconds": self.train_seconds,
            "eval_seconds": self.eval_seconds,
            **facts.peak_memory(self.run.device),
            "samples_per_second": len(self.data.train) * self.args.epochs / self.train_seconds,
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
    """Raise where the ranks together did not see each sentence once."""
    if counted != count:
        message = f"{int(counted)} sentences were {did}; the set has {count}"
        raise RuntimeError(message)
