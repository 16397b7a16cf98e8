"""The sentences: read once, every byte checked, and split once for all ranks.

`runner prepare bert` makes the folder: the files, and beside them `prepared.json`, with the name of their source and
the SHA-256 of each.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from trainkit import sharding as shards
from trainkit.errors import Refusal, reason
from trainkit.files import read_file
from trainkit.prepare import read_prepared

LABELS = {"negative.txt": 0, "positive.txt": 1}
"""A file of each label: UTF-8, one sentence a line."""
TEST_SHARE = 0.1
LARGEST_BYTES = 100_000_000


@dataclass(frozen=True)
class Sentences:
    """N sentences with their labels [N], int64: 0 is negative, 1 positive."""

    texts: list[str]
    labels: Tensor
    source: str
    files: dict[str, str]
    """The SHA-256 of every file that was read, by name."""


def read(data_dir: str) -> Sentences:
    """Read the sentences of a data folder; Refusal if they are not whole."""
    folder = Path(data_dir) / "bert" / "sentences"
    texts: list[str] = []
    labels: list[int] = []
    try:
        source, files = read_prepared(folder)
        for name, label in LABELS.items():
            lines = read_lines(folder / name)
            texts += lines
            labels += [label] * len(lines)
    except (OSError, ValueError) as error:
        raise Refusal(f"no whole sentences in {folder} ({reason(error)}): run `runner prepare bert`") from error
    return Sentences(texts, torch.tensor(labels), source, files)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; ValueError if one is empty, or is no UTF-8."""
    # Not splitlines: a sentence may hold characters that Python takes for the end of a line.
    lines = read_file(path, LARGEST_BYTES).decode().removesuffix("\n").split("\n")
    if not all(lines):
        raise ValueError(f"{path.name} is empty or has an empty line")
    return lines


def split(count: int, seed: int, *purpose: int | str) -> tuple[Tensor, Tensor]:
    """Return the positions of the training and of the test sentences, a tenth (rounded up), drawn from the seed."""
    order = torch.randperm(count, generator=shards.generator(seed, "split", *purpose))
    tests = math.ceil(count * TEST_SHARE)
    return order[tests:], order[:tests]
