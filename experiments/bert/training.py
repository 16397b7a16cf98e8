"""What the BERT programs share besides their loops: warm-up, what they report."""

import copy
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from experiments.bert.data import EVAL_BATCH, Batch, Batches, Data
from experiments.bert.model import autocast
from experiments.bert.sentences import of_files
from trainkit import distributed, epochs
from trainkit.epochs import Totals
from trainkit.flops import Work
from trainkit.run import Run
from trainkit.step_profile import report_step

Step = Callable[[Batch], Tensor]
"""One update of the model; returns the loss of every sentence of the batch [n]."""
Measure = Callable[[Callable[[], Batch]], bool]
"""What measures by further steps, on batches that it draws."""


def warm_up(
    step: Step,
    batches: Batches,
    run: Run,
    args: Namespace,
    model: nn.Module,
    optimizer: Optimizer,
    work: Work,
    measure: Measure | None = None,
) -> None:
    """Take the first steps, which are slow, before the clock starts; then undo them.

    They have the longest sentences: what fits into memory now will fit later. In between, the ranks' parameters
    must be equal after real steps: a gradient that is not averaged is found here. The FLOPs of the first step are
    counted, for each position in its batch. One process alone also reports what a step is made of.
    `measure` comes last, with other batches: in the longest one the first rank has longer sentences than the last. If
    it has changed the shares of a batch, the longest one is tried again.
    """
    batch = None
    before = {name: value.to("cpu", copy=True) for name, value in model.state_dict().items()}
    fresh = copy.deepcopy(optimizer.state_dict())

    def undo() -> None:
        model.load_state_dict(before)
        optimizer.load_state_dict(fresh)
        optimizer.zero_grad()

    with torch.random.fork_rng(devices=run.cuda_devices):
        for number, batch in enumerate(islice(batches.longest_first(), args.warmup_steps)):
            with nullcontext() if number else work.counted(batch.tokens.numel()):
                step(batch)
        if batch is not None:
            report_step(run, model, step, batch)
        run.require_equal_parameters(model)
        if batch is not None and measure is not None:
            changed = measure(batches.of_middle_length)
            undo()  # the ranks have different models after it
            if changed:
                step(next(batches.longest_first()))
    undo()


class Report(epochs.Report):
    """What the BERT programs report."""

    data: Data

    def describe_data(self) -> None:
        """Report which sentences, how they are split, and every file that was read."""
        log, data = self.run.log, self.data
        log.point("dataset", data.source, data_sha256=of_files(data.files), split_sha256=data.split_sha256)
        log.point("files", sha256=data.files)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the training's matrix products."""
        return torch.bfloat16 if self.args.precision == "bf16" else torch.float32

    def outputs(self, model: nn.Module) -> Iterator[tuple[Batch, Tensor]]:
        """Yield this rank's batches of the test set with the model's logits [n, 2]."""
        for batch in Batches(self.data.test, self.args.seed, self.run, EVAL_BATCH, self.shares).longest_first():
            with autocast(self.args, self.run):
                logits = model(batch.tokens, attention_mask=batch.mask).logits
            yield batch, logits.float()

    def of_epoch(self, totals: Totals) -> dict[str, float]:
        """Report how much of what was computed was padding."""
        [places] = distributed.total(totals.places)
        return {"padding": 1 - int(self.data.train.lengths.sum()) / places}
