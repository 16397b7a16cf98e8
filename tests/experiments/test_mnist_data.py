"""The images: as published, verified, and the same for every loader."""

import gzip
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from experiments.mnist import data
from experiments.mnist.arguments import mnist_parser
from experiments.mnist.digits import make_digits
from trainkit.errors import Refusal
from trainkit.run import Run

NAMES = sorted(path.name for path in data.DIGITS.glob("*.gz"))


def arguments(*words: str) -> Namespace:
    return mnist_parser(None).parse_args(["--dataset", "digits", "--device", "cpu", *words])


def batches(*words: str) -> list[data.Batch]:
    args = arguments(*words)
    run = Run("test", args)
    return list(data.Batches(data.load(args, run).train, args, run, 100).epoch(1))


def test_the_digits_are_those_of_scikit_learn_byte_for_byte() -> None:
    made = make_digits.idx_files()
    assert [f"{name}.gz" for name in sorted(made)] == NAMES
    for name, content in made.items():
        assert gzip.decompress((data.DIGITS / f"{name}.gz").read_bytes()) == content


def test_loaders_leave_the_generator_of_dropout_alone() -> None:
    before = torch.get_rng_state()
    batches("--loader", "torchvision", "--augment", "affine")
    assert torch.equal(before, torch.get_rng_state())


def test_the_distortion_is_seeded_and_leaves_the_edge_black() -> None:
    first, again, plain = batches("--augment", "affine"), batches("--augment", "affine"), batches()
    for batch, two, three in zip(first, again, plain, strict=True):
        assert torch.equal(batch.images, two.images)
        assert not torch.equal(batch.images, three.images)
        assert batch.images.min() >= plain[0].images.min() - 1e-5
        assert batch.images.mean() == pytest.approx(three.images.mean().item(), abs=0.1)


BREAKS: dict[str, Callable[[Path], object]] = {
    "absent": Path.unlink,
    "torn": lambda file: file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes())[:-1]),
    "wrong count": lambda _: None,
}


@pytest.mark.parametrize("how", BREAKS)
def test_invalid_data_is_refused_with_the_way_out(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(data.DIGITS, tmp_path / "mnist")
    BREAKS[how](folder / NAMES[2])
    monkeypatch.setitem(data.SIDES, "mnist", 8)
    if how != "wrong count":
        monkeypatch.setitem(data.COUNTS, "mnist", (1438, 359))
    args = arguments("--dataset", "mnist", "--data-dir", str(tmp_path))
    with pytest.raises(Refusal, match=f"{folder} .*`runner prepare mnist`"):
        data.load(args, Run("test", args))
