"""The sentences with their labels, and their split into training and test."""

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
"""The file of each label: UTF-8, one sentence per line."""
TEST_SHARE = 0.1
LARGEST_BYTES = 100_000_000


@dataclass(frozen=True)
class Sentences:
    """N sentences with labels [N], int64: 0 is negative, 1 positive."""

    texts: list[str]
    labels: Tensor
    source: str
    files: dict[str, str]
    """SHA-256 of each file, by name."""


def read(data_dir: str) -> Sentences:
    """Read and verify the sentences of a data folder; Refusal if a file is missing or changed."""
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
        raise Refusal(f"no valid sentences in {folder} ({reason(error)}): run `runner prepare bert`") from error
    return Sentences(texts, torch.tensor(labels), source, files)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file; ValueError if a line is empty or not UTF-8."""
    # Not splitlines: sentences may contain characters that Python takes for line ends.
    lines = read_file(path, LARGEST_BYTES).decode().removesuffix("\n").split("\n")
    if not all(lines):
        raise ValueError(f"{path.name} is empty or has an empty line")
    return lines


def split(count: int, seed: int, *purpose: int | str) -> tuple[Tensor, Tensor]:
    """Return the positions of training and test sentences; the test set is a random tenth, rounded up."""
    order = torch.randperm(count, generator=shards.generator(seed, "split", *purpose))
    tests = math.ceil(count * TEST_SHARE)
    return order[tests:], order[:tests]
