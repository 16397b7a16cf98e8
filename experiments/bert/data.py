"""The sentences as tokens on the device, in batches of similar length."""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from experiments.bert import sentences
from experiments.bert.model import files, find, load_tokenizer
from experiments.bert.model_files import of_files
from trainkit import distributed
from trainkit import sharding as shards
from trainkit.arguments import Parser
from trainkit.epochs import Shares
from trainkit.errors import Refusal
from trainkit.run import Run

EVAL_BATCH = 256


@dataclass(frozen=True)
class Samples:
    """N sentences on the device: tokens [N, longest], int64, padded, and labels [N].

    Lengths [N], in tokens, stay on the CPU, where batches are planned.
    """

    tokens: Tensor
    labels: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        """Return N."""
        return len(self.lengths)

    def chosen(self, index: Tensor) -> "Samples":
        """Return the samples at positions `index` [n]."""
        there = index.to(self.tokens.device)
        return Samples(self.tokens[there], self.labels[there], self.lengths[index])


@dataclass(frozen=True)
class Data:
    """A training set and a test set, the same on all ranks, and the SHA-256 of their sources."""

    train: Samples
    test: Samples
    folder: Path
    """The folder of the model."""
    source: str
    files: dict[str, str]
    """SHA-256 of each file that was read, by name."""
    split_sha256: str
    words: Tensor | None = None
    """Vocabulary ids [n] of the words by which tokens are renumbered; None if tokens are vocabulary ids."""


@dataclass(frozen=True)
class Batch(shards.Batch):
    """A rank's part of one global batch, padded to its longest sentence."""

    tokens: Tensor
    """[n, longest]"""
    mask: Tensor
    """[n, longest], 1 for tokens and 0 for padding."""


def load(args: Namespace, run: Run) -> Data:
    """Read, check, tokenise and split the data; raises if sentences, model or split differ between ranks."""
    folder = find(args)
    read = sentences.read(args.data_dir)
    parts = {**read.files, **files(folder)}
    distributed.require_equal("the data or the model", of_files(parts))
    train, test = sentences.split(len(read.texts), args.seed)
    split_sha256 = distributed.fingerprint([train, test])
    distributed.require_equal("the split", split_sha256)
    if not len(train):
        raise Refusal(f"{len(read.texts)} sentences cannot be split into training and test")
    samples, words = tokenise(folder, read, run.device), None
    if getattr(args, "vocabulary", "all") == "used":
        words, tokens = samples.tokens.unique(return_inverse=True)
        samples = replace(samples, tokens=tokens)
    return Data(samples.chosen(train), samples.chosen(test), folder, read.source, parts, split_sha256, words)


def tokenise(folder: Path, read: sentences.Sentences, device: torch.device) -> Samples:
    """Turn all sentences into tokens, cut at the model's maximum length."""
    tokenizer, most, words = load_tokenizer(folder)
    rows = tokenizer(read.texts, truncation=True, max_length=most)["input_ids"]
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.full((len(rows), int(lengths.max())), tokenizer.pad_token_id or 0)
    tokens[torch.arange(tokens.shape[1]) < lengths[:, None]] = torch.tensor([token for row in rows for token in row])
    if int(tokens.max()) >= words:
        raise Refusal(f"the tokenizer in {folder} has ids beyond the model's vocabulary of {words} words")
    return Samples(tokens.to(device), read.labels.to(device), lengths)


class Batches:
    """A rank's batches, sharded by `trainkit.sharding` with the current shares."""

    def __init__(self, samples: Samples, seed: int, run: Run, batch_size: int, shares: Shares = shards.even) -> None:
        self.samples = samples
        self.seed = seed
        self.batch_size = batch_size
        self.parts = partial(shards.rank_slices, len(samples), batch_size, run.rank, run.world_size, shares)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield the batches of an epoch in its random order, each of sentences of similar length."""
        order = shards.epoch_order(len(self.samples), self.seed, epoch)
        draws = shards.generator(self.seed, "buckets", epoch)
        return self.dealt(by_length(order, self.samples.lengths, self.batch_size, draws))

    def longest_first(self) -> Iterator[Batch]:
        """Yield the batches from the longest to the shortest sentences."""
        return self.dealt(self.samples.lengths.argsort(stable=True, descending=True))

    def of_middle_length(self) -> Batch:
        """Return a batch of median length, with its long sentences spread over the ranks."""
        order = self.samples.lengths.argsort(stable=True, descending=True)
        first = len(order) // self.batch_size // 2 * self.batch_size
        batch, others = order[first : first + self.batch_size], order[first + self.batch_size :]
        places = torch.randperm(len(batch), generator=shards.generator(self.seed, "middle"))
        return next(self.dealt(torch.cat([batch[places], others])))

    def dealt(self, order: Tensor) -> Iterator[Batch]:
        """Yield this rank's part of the batches of an order [N]."""
        for part, size in self.parts():
            # An empty part takes one sample as padding.
            index = order[part.start : max(part.stop, part.start + 1)]
            chosen = self.samples.chosen(index)
            longest = int(chosen.lengths.max())
            mask = torch.arange(longest) < chosen.lengths[:, None]
            there = chosen.tokens.device
            yield Batch(chosen.labels, len(part), size, chosen.tokens[:, :longest], mask.long().to(there))


def by_length(order: Tensor, lengths: Tensor, batch_size: int, draws: torch.Generator) -> Tensor:
    """Return the order [N] rearranged so that each whole batch holds sentences of similar length.

    In random batches, padding doubles the length. So sentences are sorted by length and cut into batches; then batches
    are shuffled, and so are places within batches, so that no rank always gets the longer half. The last samples of the
    random order form the short last batch.
    """
    whole = len(order) - len(order) % batch_size
    head, rest = order[:whole], order[whole:]
    batches = head[lengths[head].argsort(stable=True)].view(-1, batch_size)
    rows = torch.randperm(len(batches), generator=draws)
    places = torch.randperm(batch_size, generator=draws)
    return torch.cat([batches[rows][:, places].flatten(), rest])


def add_less_work(parser: Parser) -> None:
    """Add the options of `experiments.bert.less_work`.

    They are not in `bert_parser`: `runner` reads options from a program's modules, and `split_per_rank` lacks these.
    """
    parser.add_argument(
        "--last-layer",
        choices=["all", "first-token"],
        default="all",
        help="first-token: the last layer computes only the first token, the only one that the classifier reads",
    )
    parser.add_argument(
        "--vocabulary",
        choices=["all", "used"],
        default="all",
        help="used: leave words that occur in no sentence out of the model, and so of gradients and optimizer",
    )
