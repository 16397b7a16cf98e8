"""What the BERT programs report."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from experiments.bert.data import EVAL_BATCH, Batch, Batches, Data
from experiments.bert.model import autocast
from experiments.bert.model_files import of_files
from trainkit import distributed, epochs
from trainkit.epochs import Totals


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

    def first_batches(self, batches: Batches) -> Iterator[Batch]:
        """Yield the batches with the longest sentences: what fits into memory now will fit later."""
        return batches.longest_first()

    def batch_to_measure(self, batches: Batches) -> Batch:
        """Return a batch of middle length: in the longest one the first rank has longer sentences than the last."""
        return batches.of_middle_length()

    def units_of(self, batch: Batch) -> int:
        """Return the positions of a batch, padding included."""
        return batch.tokens.numel()

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
