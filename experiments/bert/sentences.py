"""The sentences: read once, every byte checked, and split once for all ranks.

`runner prepare bert` lays a folder out: the files, and beside them `prepared.json`, which names their source and holds
the SHA-256 of each.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments import shards
from experiments.distributed import Refusal

LABELS = {"negative.txt": 0, "positive.txt": 1}
"""A file of each label: UTF-8, one sentence a line."""
TEST_SHARE = 0.1


@dataclass(frozen=True)
class Sentences:
    """N sentences with their labels [N], int64: 0 is negative, 1 positive."""

    texts: list[str]
    labels: Tensor
    source: str
    files: dict[str, str]
    """The SHA-256 of every file that was read, by name."""


def read(data_dir: str) -> Sentences:
    """Read the sentences of a data folder; Refusal where they are not whole."""
    folder = Path(data_dir) / "bert" / "sentences"
    texts: list[str] = []
    labels: list[int] = []
    try:
        source, files = checked(folder)
        for name, label in LABELS.items():
            lines = read_lines(folder / name)
            texts += lines
            labels += [label] * len(lines)
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"no whole sentences in {folder} ({error}): run `runner prepare bert`"
        raise Refusal(message) from error
    return Sentences(texts, torch.tensor(labels), source, files)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; ValueError where one is empty, or is no UTF-8."""
    # Not splitlines: a sentence may hold characters that Python takes for the end of a line.
    lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    if not all(lines):
        message = f"{path.name} is empty or has an empty line"
        raise ValueError(message)
    return lines


def checked(folder: Path) -> tuple[str, dict[str, str]]:
    """Return what `prepared.json` says of a folder, its source and files, after comparing every file's SHA-256.

    Raises OSError or ValueError where a file is missing or another.
    """
    told: dict[str, Any] = json.loads((folder / "prepared.json").read_text(encoding="utf-8"))
    source, files = str(told["source"]), dict(told["files"])
    for name, sha256 in files.items():
        if of_file(folder / name) != sha256:
            message = f"{name} is not what was prepared: its SHA-256 is not {sha256[:16]}..."
            raise ValueError(message)
    return source, files


def of_file(path: Path) -> str:
    """Return a file's SHA-256."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def of_files(files: dict[str, str]) -> str:
    """Return one SHA-256 for several files, given that of each by name."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def split(count: int, seed: int, *purpose: int | str) -> tuple[Tensor, Tensor]:
    """Return the positions of the training and of the test sentences, a tenth (rounded up), drawn from the seed."""
    order = torch.randperm(count, generator=shards.generator(seed, "split", *purpose))
    tests = math.ceil(count * TEST_SHARE)
    return order[tests:], order[:tests]
