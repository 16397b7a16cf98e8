"""Runs with `--communication`, on digits and on the tiny BERT."""

from typing import Any

import pytest
import torch

from experiments.mnist.arguments import mnist_parser
from experiments.mnist.model import MODELS
from tests.experiments.conftest import Launch, good
from trainkit import communication
from trainkit.arguments import add_communication
from trainkit.errors import Refusal

SGD = ("--epochs", "2", "--batch-size", "479", "--model", "lenet-relu", "--optimizer", "sgd", "--lr", "0.1")
"""1,438 = 3 x 479 + 1: parts of a batch differ in size, and only one rank has a sample of the last batch."""
BERT = ("--epochs", "2", "--batch-size", "60", "--lr", "1e-3")
LOCAL = ("--communication", "local-sgd", "--sync-every", "3")


def same(ended: Any, other: Any, rtol: float = 1e-3, atol: float = 1e-5) -> None:
    assert len(good(ended).parameters) > 3
    for name, expected in ended.parameters.items():
        torch.testing.assert_close(good(other).parameters[name], expected, rtol=rtol, atol=atol)


@pytest.mark.slow
def test_batches_that_are_added_up_are_one_large_batch(train: Launch) -> None:
    words = ("--epochs", "2", "--model", "lenet-relu", "--optimizer", "sgd", "--lr", "0.1", "--momentum", "0.9")
    whole = train("mnist.ddp", 3, *words, "--batch-size", "240")
    added = train("mnist.ddp", 3, *words, "--batch-size", "60", "--accumulate", "4")
    same(whole, added, rtol=1e-3, atol=1e-4)
    sent = []
    for ended in (whole, added):
        told = ended.first("epoch_stop")["metadata"]
        assert (told["steps"], told["trained_samples"], told["global_batch_size"]) == (6, 1438, 240)
        sent.append(ended.first("communication")["metadata"]["sent_bytes"])
    assert sent[0] == sent[1]


@pytest.mark.parametrize("choice", [("--communication", "bf16"), LOCAL])  # fp16 has the same code
def test_a_bert_learns_with_each_communication_and_its_time_is_accounted_for(
    launch_bert: Launch, choice: tuple[str, ...]
) -> None:
    ddp, ended = launch_bert("bert.ddp", 2, *BERT), good(launch_bert("bert.ddp", 2, *BERT, *choice))
    assert len(set(ended.values("parameters"))) == 1
    assert float.fromhex(ended.losses[-2]) == pytest.approx(float.fromhex(ddp.losses[-2]), abs=0.05)
    assert all(event["metadata"]["communication_seconds"] > 0 for event in ended.all("epoch_stop"))
    sent = [run.all("tracked_stats")[1]["value"]["communicated_bytes"] for run in (ended, ddp)]
    assert 0 < sent[0] < 0.6 * sent[1]


@pytest.mark.slow
def test_the_bytes_of_a_step_are_those_that_are_exchanged(train: Launch) -> None:
    sizes = [parameter.numel() for parameter in MODELS["lenet-relu"]().parameters()]
    for words, reduced in [
        ((), 4 * sum(sizes)),
        (("--communication", "fp16"), 2 * sum(sizes)),
        (LOCAL, 4 * sum(sizes) * 4 / 8),  # 4 steps per epoch: averages after the third, and at the end
    ]:
        data = train("mnist.ddp", 3, *SGD, *words).first("communication")["metadata"]
        assert data["reduced_bytes"] == pytest.approx(reduced, abs=0.1)
        assert data["sent_bytes"] == pytest.approx(2 * 2 / 3 * reduced, abs=0.1)
        assert data["steps"] == 8


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--communication", "fp16", "--sync-every", "4"), "--sync-every has no effect"),
        (("--accumulate", "9999999999"), "at most 3"),
    ],
)
def test_options_without_effect_and_impossible_ones_are_refused(words: tuple[str, ...], text: str) -> None:
    parser = mnist_parser(None)
    add_communication(parser)
    args = parser.parse_args(words)
    with pytest.raises(Refusal, match=text):  # noqa: PT012 - one of the two
        communication.check(args)
        communication.check_batch(args, 479 * args.accumulate, 1438)
