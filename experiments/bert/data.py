"""The sentences as tokens: made once before the clock starts, held on the device, and dealt out by length."""

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
    """N sentences: their tokens [N, longest], int64, padded, and labels [N], on the device.

    Their lengths [N], in tokens, stay on the CPU, where the batches are planned.
    """

    tokens: Tensor
    labels: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        """Return N."""
        return len(self.lengths)

    def chosen(self, index: Tensor) -> "Samples":
        """Return the samples at some positions [n]."""
        there = index.to(self.tokens.device)
        return Samples(self.tokens[there], self.labels[there], self.lengths[index])


@dataclass(frozen=True)
class Data:
    """A training set and a test set, cut alike on all ranks, and what they are made of, by SHA-256."""

    train: Samples
    test: Samples
    folder: Path
    """The model's."""
    source: str
    files: dict[str, str]
    """What was read."""
    split_sha256: str
    words: Tensor | None = None
    """The words [n] that the tokens are numbered by, as the model's vocabulary has them; None: all of them."""


@dataclass(frozen=True)
class Batch(shards.Batch):
    """A rank's part of one global batch, padded to its own longest sentence."""

    tokens: Tensor
    """[n, longest]"""
    mask: Tensor
    """[n, longest], 1 for a token and 0 for padding."""


def load(args: Namespace, run: Run) -> Data:
    """Read, check, tokenise and split; all ranks must have the same sentences, model and split."""
    folder = find(args)
    read = sentences.read(args.data_dir)
    parts = {**read.files, **files(folder)}
    distributed.require_equal("the data or the model", of_files(parts))
    train, test = sentences.split(len(read.texts), args.seed)
    split_sha256 = distributed.fingerprint([train, test])
    distributed.require_equal("the split", split_sha256)
    if not len(train):
        raise Refusal(f"{len(read.texts)} sentences cannot be parted into training and test")
    samples, words = tokenise(folder, read, run.device), None
    if getattr(args, "vocabulary", "all") == "used":
        words, tokens = samples.tokens.unique(return_inverse=True)
        samples = replace(samples, tokens=tokens)
    return Data(samples.chosen(train), samples.chosen(test), folder, read.source, parts, split_sha256, words)


def tokenise(folder: Path, read: sentences.Sentences, device: torch.device) -> Samples:
    """Turn all sentences into tokens; what is longer than the model takes is cut."""
    tokenizer, most, words = load_tokenizer(folder)
    rows = tokenizer(read.texts, truncation=True, max_length=most)["input_ids"]
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.full((len(rows), int(lengths.max())), tokenizer.pad_token_id or 0)
    tokens[torch.arange(tokens.shape[1]) < lengths[:, None]] = torch.tensor([token for row in rows for token in row])
    if int(tokens.max()) >= words:
        raise Refusal(f"the tokenizer in {folder} has words that the model there, with its {words}, does not know")
    return Samples(tokens.to(device), read.labels.to(device), lengths)


class Batches:
    """A rank's batches, dealt out by `trainkit.sharding`, by the shares of the moment."""

    def __init__(self, samples: Samples, seed: int, run: Run, batch_size: int, shares: Shares = shards.even) -> None:
        self.samples = samples
        self.seed = seed
        self.batch_size = batch_size
        self.parts = partial(shards.rank_slices, len(samples), batch_size, run.rank, run.world_size, shares)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield the batches of the epoch's own random order, each of sentences that are about as long."""
        order = shards.epoch_order(len(self.samples), self.seed, epoch)
        draws = shards.generator(self.seed, "buckets", epoch)
        return self.dealt(by_length(order, self.samples.lengths, self.batch_size, draws))

    def longest_first(self) -> Iterator[Batch]:
        """Yield the batches from the longest to the shortest sentences."""
        return self.dealt(self.samples.lengths.argsort(stable=True, descending=True))

    def of_middle_length(self) -> Batch:
        """Return the batch in the middle between those two, the long sentences spread over the ranks."""
        order = self.samples.lengths.argsort(stable=True, descending=True)
        first = len(order) // self.batch_size // 2 * self.batch_size
        batch, others = order[first : first + self.batch_size], order[first + self.batch_size :]
        places = torch.randperm(len(batch), generator=shards.generator(self.seed, "middle"))
        return next(self.dealt(torch.cat([batch[places], others])))

    def dealt(self, order: Tensor) -> Iterator[Batch]:
        """Yield the batches of an order [N]."""
        for part, size in self.parts():
            # An empty part takes one sample as its stand-in.
            index = order[part.start : max(part.stop, part.start + 1)]
            chosen = self.samples.chosen(index)
            longest = int(chosen.lengths.max())
            mask = torch.arange(longest) < chosen.lengths[:, None]
            there = chosen.tokens.device
            yield Batch(chosen.labels, len(part), size, chosen.tokens[:, :longest], mask.long().to(there))


def by_length(order: Tensor, lengths: Tensor, batch_size: int, draws: torch.Generator) -> Tensor:
    """Return an order [N] of the same samples in which every whole batch holds sentences about as long.

    Random batches are padded to twice their length. Here the order is sorted by length and cut into batches; then the
    batches are shuffled, and so is the place within a batch, so that no rank always gets the longer half. Among equally
    long sentences the random order decides. The samples of a short last batch are the last of the random order.
    """
    whole = len(order) - len(order) % batch_size
    head, rest = order[:whole], order[whole:]
    batches = head[lengths[head].argsort(stable=True)].view(-1, batch_size)
    rows = torch.randperm(len(batches), generator=draws)
    places = torch.randperm(batch_size, generator=draws)
    return torch.cat([batches[rows][:, places].flatten(), rest])


def add_less_work(parser: Parser) -> None:
    """For a program that may leave out what does not change the losses; see `experiments.bert.less_work`.

    It is here, not with the arguments of all BERT programs: an option that a program's modules declare is one of its
    own for `runner`, and `split_per_rank` has none of these.
    """
    parser.add_argument(
        "--last-layer",
        choices=["all", "first-token"],
        default="all",
        help="first-token: the last layer computes the first token alone, the only one that the classifier reads",
    )
    parser.add_argument(
        "--vocabulary",
        choices=["all", "used"],
        default="all",
        help="used: words that no sentence has are left out of the model, and so of gradients and optimizer",
    )
