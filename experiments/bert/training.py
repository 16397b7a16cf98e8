"""The reports of the BERT programs."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from experiments.bert.data import EVAL_BATCH, Batch, Batches, Data
from experiments.bert.model import autocast
from experiments.bert.model_files import of_files
from trainkit import distributed, epochs
from trainkit.epochs import Totals


class Report(epochs.Report):
    """Adds the BERT data and its padding to the common report."""

    data: Data

    def describe_data(self) -> None:
        """Report the sentences, their split, and the hash of each file."""
        log, data = self.run.log, self.data
        log.point("dataset", data.source, data_sha256=of_files(data.files), split_sha256=data.split_sha256)
        log.point("files", sha256=data.files)

    @property
    def dtype(self) -> torch.dtype:
        """The type in which the training multiplies matrices."""
        return torch.bfloat16 if self.args.precision == "bf16" else torch.float32

    def first_batches(self, batches: Batches) -> Iterator[Batch]:
        """Yield the longest batches first: if these fit into memory, all do."""
        return batches.longest_first()

    def batch_to_measure(self, batches: Batches) -> Batch:
        """Return a batch of median length: in the longest one the ranks' sentences differ in length."""
        return batches.of_middle_length()

    def units_of(self, batch: Batch) -> int:
        """Return the positions of a batch, including padding."""
        return batch.tokens.numel()

    def outputs(self, model: nn.Module) -> Iterator[tuple[Batch, Tensor]]:
        """Yield this rank's test batches with the model's logits [n, 2], in fp32."""
        for batch in Batches(self.data.test, self.args.seed, self.run, EVAL_BATCH, self.shares).longest_first():
            with autocast(self.args, self.run):
                logits = model(batch.tokens, attention_mask=batch.mask).logits
            yield batch, logits.float()

    def of_epoch(self, totals: Totals) -> dict[str, float]:
        """Return the share of the computed positions that were padding."""
        [places] = distributed.total(totals.places)
        return {"padding": 1 - int(self.data.train.lengths.sum()) / places}
