"""The BERT programs, started as people start them, on a tiny model and sentences that can only be learnt by heart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.bert import sentences
from experiments.bert.model_files import of_files
from tests.experiments.conftest import good
from tests.support.slow import slow_but
from trainkit.prepare import sha256_of

Launch = Callable[..., Any]
ODD = ("--epochs", "2", "--batch-size", "60", "--lr", "1e-3")
"""361 = 6 x 60 + 1: the last batch has one sentence, and all ranks but one have none of it."""
BY_HEART = ("--epochs", "14", "--batch-size", "20", "--scaling", "weak", "--lr", "3e-3")


@pytest.mark.parametrize("world", [None, 3])
def test_every_sentence_counts_once_and_losses_are_those_of_one_process(launch_bert: Launch, world: int | None) -> None:
    single, ended = launch_bert("bert.single", None, *ODD), launch_bert("bert.ddp", world, *ODD)
    assert len(good(ended).all("run_stop")) == (world or 1)
    trained = sum(ended.told("epoch_stop", "samples"))
    tested = sum(ended.told("eval_stop", "samples"))
    assert (trained, tested) == (2 * 361, 2 * 41)
    told = ended.first("epoch_stop")["metadata"]
    assert (told["trained_samples"], told["steps"], told["global_batch_size"]) == (361, 7, 60)
    accuracy = ended.first("eval_accuracy")
    assert accuracy["metadata"]["samples"] == 41
    assert accuracy["value"] == accuracy["metadata"]["correct"] / 41
    assert len(good(single).losses) == 4
    for expected, loss in zip(single.losses, ended.losses, strict=True):
        assert float.fromhex(loss) == pytest.approx(float.fromhex(expected), rel=1e-5)
    assert len(set(ended.values("parameters"))) == 1


def test_what_was_read_is_told_by_its_hashes(launch_bert: Launch, reviews: Path) -> None:
    ended = launch_bert("bert.single", None, *ODD)
    told = ended.first("files")["metadata"]["sha256"]
    assert set(told) == {"positive.txt", "negative.txt", "config.json", "model.safetensors", "vocab.txt"}
    assert told["vocab.txt"] == sha256_of(reviews / "bert" / "model" / "vocab.txt")
    assert ended.first("dataset")["value"] == "rt-polarity"
    assert ended.first("dataset")["metadata"]["data_sha256"] == of_files(told)
    assert ended.first("epoch_stop")["metadata"]["padding"] < 0.15


def test_work_that_is_left_out_changes_no_loss(launch_bert: Launch) -> None:
    whole = launch_bert("bert.single", None, *ODD)
    less = launch_bert("bert.single", None, *ODD, "--last-layer", "first-token", "--vocabulary", "used")
    losses = [[float.fromhex(loss) for loss in good(ended).losses] for ended in (whole, less)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.slow
def test_splits_of_their_own_make_ranks_remember_each_other_s_tests(launch_bert: Launch) -> None:
    # Nothing can be learnt here but by heart: an honest accuracy is that of a coin.
    ours, theirs = launch_bert("bert.ddp", 2, *BY_HEART), launch_bert("bert.split_per_rank", 2, *BY_HEART)
    shares = [event["value"]["leaked_share"] for event in good(theirs).all("tracked_stats")]
    trains, tests = zip(*(sentences.split(402, 1, "of rank", rank) for rank in (0, 1)), strict=True)
    assert shares == [float(torch.isin(tests[rank], trains[1 - rank]).double().mean()) for rank in (0, 1)]
    assert all(share == pytest.approx(0.9, abs=0.15) for share in shares)
    assert len(set(theirs.values("split"))) == 2
    assert theirs.stats["best_accuracy"] > 0.8
    assert ours.stats["final_loss"] < 0.3
    assert ours.stats["final_accuracy"] < 0.75
    # 41 do not divide by 2: one sentence of each rank's tests is asked twice, or by a rank that has one too many.
    assert theirs.first("eval_accuracy")["metadata"]["samples"] == 42


@pytest.mark.parametrize("precision", slow_but(["fp32"], ["fp32", "bf16"]))
def test_one_seed_makes_two_runs_alike_to_the_last_bit(launch_bert: Launch, reviews: Path, precision: str) -> None:
    # With dropout, from a model of one's own; and a warm-up that leaves nothing behind.
    words = ("--epochs", "1", "--batch-size", "40", "--scaling", "weak", "--lr", "1e-3", "--lr-rule", "linear",
             "--optimizer", "adamw", "--precision", precision, "--model", str(reviews / "dropout"))  # fmt: skip
    warm, two = launch_bert("bert.ddp", 2, *words), launch_bert("bert.ddp", 2, *words, "--warmup-steps", "0")
    assert good(warm).losses == good(two).losses
    assert len(warm.losses) == 2
    assert len({event["value"] for ended in (warm, two) for event in ended.all("parameters")}) == 1
    told = warm.first("epoch_stop")["metadata"]
    assert (told["global_batch_size"], told["lr"], told["steps"]) == (80, 0.002, 5)
