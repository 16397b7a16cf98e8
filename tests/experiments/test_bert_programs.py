"""The BERT programs on a tiny model and sentences that can only be memorised."""

from pathlib import Path

import pytest
import torch

from experiments.bert import sentences
from experiments.bert.model_files import of_files
from tests.experiments.conftest import Launch, good
from tests.support.slow import slow_but
from trainkit.prepare import sha256_of

ODD = ("--epochs", "2", "--batch-size", "60", "--lr", "1e-3")
"""361 = 6 x 60 + 1: only one rank has a sample of the last batch."""
BY_HEART = ("--epochs", "14", "--batch-size", "20", "--scaling", "weak", "--lr", "3e-3")


@pytest.mark.parametrize("world", [None, 3])
def test_every_sentence_counts_once_and_losses_are_those_of_one_process(launch_bert: Launch, world: int | None) -> None:
    single, ended = launch_bert("bert.single", None, *ODD), launch_bert("bert.ddp", world, *ODD)
    assert len(good(ended).all("run_stop")) == (world or 1)
    assert sum(ended.told("epoch_stop", "samples")) == 2 * 361
    assert sum(ended.told("eval_stop", "samples")) == 2 * 41
    told = ended.first("epoch_stop")["metadata"]
    assert (told["trained_samples"], told["steps"], told["global_batch_size"]) == (361, 7, 60)
    accuracy = ended.first("eval_accuracy")
    assert accuracy["value"] == accuracy["metadata"]["correct"] / 41
    losses = [[float.fromhex(loss) for loss in good(run).losses] for run in (single, ended)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert len(set(ended.values("parameters"))) == 1


def test_the_files_read_are_reported_by_their_hashes(launch_bert: Launch, reviews: Path) -> None:
    ended = launch_bert("bert.single", None, *ODD)
    told = ended.first("files")["metadata"]["sha256"]
    assert set(told) == {"positive.txt", "negative.txt", "config.json", "model.safetensors", "vocab.txt"}
    assert told["vocab.txt"] == sha256_of(reviews / "bert" / "model" / "vocab.txt")
    assert ended.first("dataset")["value"] == "rt-polarity"
    assert ended.first("dataset")["metadata"]["data_sha256"] == of_files(told)


def test_left_out_work_changes_no_loss(launch_bert: Launch) -> None:
    whole = launch_bert("bert.single", None, *ODD)
    less = launch_bert("bert.single", None, *ODD, "--last-layer", "first-token", "--vocabulary", "used")
    losses = [[float.fromhex(loss) for loss in good(ended).losses] for ended in (whole, less)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.slow
def test_splits_of_their_own_make_ranks_remember_each_other_s_tests(launch_bert: Launch) -> None:
    # These sentences can only be memorised: an honest accuracy is that of a coin.
    ours, theirs = launch_bert("bert.ddp", 2, *BY_HEART), launch_bert("bert.split_per_rank", 2, *BY_HEART)
    (train, _), (_, test) = (sentences.split(402, 1, "of rank", rank) for rank in (1, 0))
    assert good(theirs).stats["leaked_share"] == float(torch.isin(test, train).double().mean())
    assert theirs.stats["best_accuracy"] > 0.8
    assert ours.stats["final_accuracy"] < 0.75


@pytest.mark.parametrize("precision", slow_but(["fp32"], ["fp32", "bf16"]))
def test_one_seed_makes_two_runs_alike_to_the_last_bit(launch_bert: Launch, reviews: Path, precision: str) -> None:
    # With dropout, from a folder's model, and with a warm-up that leaves no trace.
    words = ("--epochs", "1", "--batch-size", "40", "--scaling", "weak", "--lr", "1e-3", "--lr-rule", "linear",
             "--optimizer", "adamw", "--precision", precision, "--model", str(reviews / "dropout"))  # fmt: skip
    warm, two = launch_bert("bert.ddp", 2, *words), launch_bert("bert.ddp", 2, *words, "--warmup-steps", "0")
    assert good(warm).losses == good(two).losses != []
    assert len({*warm.values("parameters"), *two.values("parameters")}) == 1
    told = warm.first("epoch_stop")["metadata"]
    assert (told["global_batch_size"], told["lr"], told["steps"]) == (80, 0.002, 5)
