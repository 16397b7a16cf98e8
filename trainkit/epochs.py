"""Reports of a program that trains by epochs: clocks, tests after each epoch, and totals.

A family of programs subclasses `Report` to describe its data and call its model.
"""

import copy
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from trainkit import distributed, sharding
from trainkit import process_facts as facts
from trainkit.errors import Refusal
from trainkit.flops import Work
from trainkit.run import Run
from trainkit.sharding import Batch
from trainkit.time_use import InputTime, TimeUse

Step = Callable[[Any], Tensor]
"""One update of the model; returns each sample's loss [n]."""
Measure = Callable[[Callable[[], Any]], bool]
"""Measures the ranks' speeds with batches drawn by its argument; returns whether the shares of a batch have changed."""
Shares = Callable[[], Sequence[int] | None]


def global_batch_size(args: Namespace, workers: int) -> int:
    """Return the samples of one step of all `workers` (processes, or devices of one process); may raise Refusal."""
    size: int = args.batch_size
    if args.scaling == "weak":
        return size * workers
    if size < workers:
        raise Refusal(
            f"a global batch of {size} cannot be shared by {workers} processes:"
            " --batch-size must be at least their number"
        )
    return size


@dataclass
class Totals(InputTime):
    """The sums of an epoch, kept on the device so that no step waits for the host."""

    loss_sum: Tensor
    on_progress: Callable[[int], None]
    samples: int = 0
    global_samples: int = 0
    steps: int = 0
    places: int = 0
    """Positions in the batches including padding, if a family counts positions."""
    time_use: TimeUse | None = None
    input_seconds: float = 0.0
    """Time that this process spent on getting batches; a GPU may have worked meanwhile."""

    def add(self, batch: Batch, losses: Tensor, places: int = 0) -> None:
        """Count a step, with the losses [n] of this rank's samples; losses of padding samples are ignored."""
        self.loss_sum += losses[: batch.samples].sum(dtype=torch.float64)
        self.samples += batch.samples
        self.global_samples += batch.global_samples
        self.places += places
        self.steps += 1
        self.on_progress(self.global_samples)


@dataclass
class Report:
    """Reports a run as events, and collects the figures for the last events.

    Args:
        data: has a training set `train` and a test set `test`, both sized.
        batch_size: samples of a global batch.
    """

    run: Run
    data: Any
    args: Namespace
    batch_size: int
    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    input_seconds: float = 0.0
    units: int = 0
    """This rank's samples, or positions in batches if a family counts positions."""
    shares: Shares = sharding.even
    """Each rank's current share of a batch, also of the test set."""

    def __post_init__(self) -> None:
        """Report the data and measure the devices' peak."""
        self.work = Work(self.run)
        self.work.measure_peak(self.dtype, self.args.peak_milliseconds / 1000)
        if self.run.first:
            log = self.run.log
            log.point("seed", self.args.seed)
            log.point("global_batch_size", self.batch_size)
            log.point("train_samples", len(self.data.train))
            log.point("eval_samples", len(self.data.test))
            self.describe_data()

    def describe_data(self) -> None:
        """Report the hash of the data."""
        raise NotImplementedError

    @property
    def dtype(self) -> torch.dtype:
        """The type in which the training multiplies matrices."""
        return torch.float32

    def outputs(self, model: nn.Module) -> Iterable[tuple[Batch, Tensor]]:
        """Yield this rank's test batches with the model's outputs [n, classes], in fp32."""
        raise NotImplementedError

    def of_epoch(self, totals: Totals) -> dict[str, Any]:  # noqa: ARG002 - for subclasses
        """Return further fields of an epoch's event; called on every rank."""
        return {}

    def first_batches(self, batches: Any) -> Iterator[Any]:
        """Yield the batches of the warm-up, by default the training's batches."""
        found: Iterator[Any] = batches.epoch(0)
        return found

    def units_of(self, batch: Any) -> int:
        """Return the units to which a batch's FLOPs are proportional: samples including padding, or positions."""
        return len(batch.labels)

    def batch_to_measure(self, batches: Any) -> Any:
        """Return a batch for measuring the ranks' speeds."""
        return next(self.first_batches(batches))

    def warm_up(
        self,
        step: Step,
        batches: Any,
        model: nn.Module,
        optimizer: Optimizer,
        counted: Callable[[Any], object] | None = None,
        measure: Measure | None = None,
    ) -> None:
        """Take the first steps, which are slow, before the clock starts; then undo them.

        Parameters, buffers, optimizer and random numbers are restored. Before that, the ranks' parameters must be
        equal, which exposes gradients that are not averaged. `counted` replaces the first step if the FLOP counter
        cannot see the FLOPs of `step`. `measure` is called last; if the shares change, one more step follows.
        `model` has no DistributedDataParallel around it.
        """
        batch = None
        before = {name: value.to("cpu", copy=True) for name, value in model.state_dict().items()}
        fresh = copy.deepcopy(optimizer.state_dict())

        def undo() -> None:
            model.load_state_dict(before)
            optimizer.load_state_dict(fresh)
            optimizer.zero_grad()

        with torch.random.fork_rng(devices=self.run.cuda_devices):
            for number, batch in enumerate(islice(self.first_batches(batches), self.args.warmup_steps)):
                with nullcontext() if number else self.work.counted(self.units_of(batch)):
                    (step if number or counted is None else counted)(batch)
            self.run.require_equal_parameters(model)
            if batch is not None and measure is not None:
                changed = measure(lambda: self.batch_to_measure(batches))
                undo()  # the ranks' models differ now
                if changed:
                    step(next(self.first_batches(batches)))
        undo()

    @contextmanager
    def epoch(self, epoch: int, lr: float) -> Iterator[Totals]:
        """Time a block that trains one epoch (`train_seconds`), and report the epoch."""
        run, count = self.run, len(self.data.train)
        zero = torch.zeros((), dtype=torch.float64, device=run.device)
        totals = Totals(zero, run.progress(epoch, {"train_samples": count}), time_use=run.time_use)
        with run.phase("epoch", epoch_num=epoch, epochs=self.args.epochs) as phase:
            yield totals
            seconds = phase.stop_clock()
            phase.metadata |= {"train_seconds": seconds, "samples": totals.samples, "steps": totals.steps}
            loss_sum, trained = distributed.total(totals.loss_sum, totals.samples)
            require_count("trained on", trained, count)
            loss = loss_sum / count
            more = self.of_epoch(totals)
            if run.first:
                phase.metadata |= {"trained_samples": int(trained), "loss": loss, "loss_hex": loss.hex(), "lr": lr}
                phase.metadata |= {"global_batch_size": self.batch_size, **more}
        self.train_seconds += seconds
        self.input_seconds += totals.input_seconds
        self.units += totals.places or totals.samples
        self.losses.append(loss)

    def evaluate(self, model: nn.Module, epoch: int) -> None:
        """Test the model on the whole test set, sharded so that each sample counts once."""
        run, count = self.run, len(self.data.test)
        loss_sum = torch.zeros((), dtype=torch.float64, device=run.device)
        correct = torch.zeros((), dtype=torch.int64, device=run.device)
        samples = 0
        model.eval()
        with run.phase("eval", epoch_num=epoch) as phase, torch.no_grad():
            for batch, outputs in self.outputs(model):
                logits, labels = outputs[: batch.samples], batch.labels[: batch.samples]
                loss_sum += cross_entropy(logits, labels, reduction="none").sum(dtype=torch.float64)
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
            told = {"correct": int(all_correct), "samples": count, "loss": loss, "loss_hex": loss.hex()}
            run.log.point("eval_accuracy", self.accuracies[-1], epoch_num=epoch, **told)

    def finish(self, model: nn.Module) -> None:
        """Compare the ranks' parameters and report the totals, with the best and the final accuracy."""
        sha256 = self.run.require_equal_parameters(model)
        self.run.log.point("parameters", sha256, equal_on_all_ranks=True)
        trained = len(self.data.train) * self.args.epochs
        stats: dict[str, float] = {
            "train_seconds": self.train_seconds,
            "eval_seconds": self.eval_seconds,
            **facts.peak_memory(self.run.device),
            "samples_per_second": trained / self.train_seconds,
            "input_seconds": self.input_seconds,
            **self.work.rates(self.units, self.train_seconds),
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
    """Raise RuntimeError if the ranks together did not see each sample once."""
    if counted != count:
        raise RuntimeError(f"{int(counted)} samples were {did}, but the set has {count}")
