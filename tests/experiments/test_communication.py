"""What processes exchange (`--communication`), in real runs on digits and on the tiny BERT."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from experiments.mnist.arguments import mnist_parser
from experiments.mnist.model import MODELS
from tests.experiments.conftest import good
from trainkit import communication
from trainkit.arguments import add_communication
from trainkit.errors import Refusal

Launch = Callable[..., Any]
SGD = ("--epochs", "2", "--batch-size", "479", "--model", "lenet-relu", "--optimizer", "sgd", "--lr", "0.1")
"""1,438 = 3 x 479 + 1: the shares of a batch differ, and in the last one a rank has none."""
BERT = ("--epochs", "2", "--batch-size", "60", "--lr", "1e-3")
CHOICES = {
    "bf16": (),
    "fp16": (),
    "local-sgd": ("--sync-every", "3"),
}


def same(ended: Any, other: Any, rtol: float = 1e-3, atol: float = 1e-5) -> None:
    """The trained parameters agree."""
    assert len(good(ended).parameters) > 3
    for name, expected in ended.parameters.items():
        torch.testing.assert_close(good(other).parameters[name], expected, rtol=rtol, atol=atol)


def chosen(name: str) -> tuple[str, ...]:
    return ("--communication", name, *CHOICES[name])


@pytest.mark.slow
def test_gradients_of_16_bits_train_nearly_the_same_model(train: Launch) -> None:
    ddp, half = train("mnist.ddp", 3, *SGD), train("mnist.ddp", 3, *SGD, *chosen("fp16"))
    same(ddp, half, rtol=0.05, atol=2e-2)
    assert ddp.losses != half.losses


@pytest.mark.slow
def test_batches_that_are_added_up_are_one_large_batch(train: Launch) -> None:
    words = ("--epochs", "2", "--model", "lenet-relu", "--optimizer", "sgd", "--lr", "0.1", "--momentum", "0.9")
    whole = train("mnist.ddp", 3, *words, "--batch-size", "240")
    added = train("mnist.ddp", 3, *words, "--batch-size", "60", "--accumulate", "4")
    same(whole, added, rtol=1e-3, atol=1e-4)
    for ended in (whole, added):
        told = ended.first("epoch_stop")["metadata"]
        assert (told["steps"], told["trained_samples"], told["global_batch_size"]) == (6, 1438, 240)
    assert added.first("communication")["metadata"] | {"seq": 0} == whole.first("communication")["metadata"] | {
        "seq": 0
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "choice",
    [chosen("bf16"), ("--accumulate", "3", *chosen("local-sgd"))],
    ids=" ".join,
)
def test_one_seed_makes_two_runs_alike_and_every_sample_counts_once(train: Launch, choice: tuple[str, ...]) -> None:
    # BatchNorm, dropout, momentum, shares of unlike sizes; and a warm-up that leaves nothing behind.
    words = ("--epochs", "1", "--batch-size", "101", "--model", "conv3-bn", "--optimizer", "sgd", "--lr", "0.02",
             "--momentum", "0.9", *choice)  # fmt: skip
    warm, two = train("mnist.ddp", 2, *words), train("mnist.ddp", 2, *words, "--warmup-steps", "0")
    assert good(warm).losses == good(two).losses
    assert len({event["value"] for ended in (warm, two) for event in ended.all("parameters")}) == 1
    assert sum(event["metadata"]["samples"] for event in warm.all("epoch_stop")) == 1438
    assert warm.first("tracked_stats")["value"]["final_loss"] < 2.28  # ln 10 = 2.303 is that of guessing


@pytest.mark.parametrize("name", ["bf16", "local-sgd"])  # fp16 is as bf16
def test_a_bert_learns_with_each_communication_and_its_time_is_accounted_for(launch_bert: Launch, name: str) -> None:
    ddp, ended = launch_bert("bert.ddp", 2, *BERT), good(launch_bert("bert.ddp", 2, *BERT, *chosen(name)))
    assert len({event["value"] for event in ended.all("parameters")}) == 1
    assert float.fromhex(ended.losses[-2]) == pytest.approx(float.fromhex(ddp.losses[-2]), abs=0.05)
    for event in ended.all("epoch_stop"):
        told = event["metadata"]
        parts = ("data", "compute", "communication", "straggler", "other")
        assert sum(told[f"{part}_seconds"] for part in parts) == pytest.approx(told["train_seconds"], rel=0.01)
        assert told["communication_seconds"] > 0
    sent = [run.all("tracked_stats")[1]["value"]["communicated_bytes"] for run in (ended, ddp)]
    assert 0 < sent[0] < 0.6 * sent[1]


@pytest.mark.slow
def test_the_bytes_of_a_step_are_those_that_are_exchanged(train: Launch) -> None:
    sizes = [parameter.numel() for parameter in MODELS["lenet-relu"]().parameters()]
    for words, reduced in [
        ((), 4 * sum(sizes)),
        (chosen("fp16"), 2 * sum(sizes)),
        (chosen("local-sgd"), 4 * sum(sizes) * 4 / 8),  # of 4 steps an epoch: after the third, and at the end
    ]:
        data = train("mnist.ddp", 3, *SGD, *words).first("communication")["metadata"]
        assert data["reduced_bytes"] == pytest.approx(reduced, abs=0.1)
        assert data["sent_bytes"] == pytest.approx(2 * 2 / 3 * reduced, abs=0.1)
        assert data["moved_bytes"] == pytest.approx(3 * data["sent_bytes"], abs=0.5)
        assert data["steps"] == 8


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--communication", "fp16", "--sync-every", "4"), "--sync-every has no effect"),
        (("--accumulate", "9999999999"), "take at most 3"),
    ],
)
def test_what_cannot_be_or_has_no_effect_is_refused(words: tuple[str, ...], text: str) -> None:
    parser = mnist_parser(None)
    add_communication(parser)
    args = parser.parse_args(words)

    def check() -> None:
        communication.check(args)
        communication.check_batch(args, 479 * args.accumulate, 1438)

    with pytest.raises(Refusal, match=text):
        check()
