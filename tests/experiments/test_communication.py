"""What processes exchange (`--communication`), in real runs on digits and on the tiny BERT."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.mnist.arguments import mnist_parser
from experiments.mnist.model import MODELS
from tests.experiments.conftest import SHORT_PEAK, good, start
from trainkit import communication
from trainkit.arguments import add_communication
from trainkit.communication.gradients import LowRank
from trainkit.errors import Refusal

Launch = Callable[..., Any]
SGD = ("--epochs", "2", "--batch-size", "479", "--model", "lenet-relu", "--optimizer", "sgd", "--lr", "0.1")
"""1,438 = 3 x 479 + 1: the shares of a batch differ, and in the last one a rank has none."""
LOW_RANK = ("--epochs", "1", "--batch-size", "4", "--model", "mlp-128-64", "--optimizer", "sgd", "--lr", "0.01")
"""The gradient of a linear layer is a sum of one outer product for each sample: its rank is at most 4. Twice that has
room for directions that the factor of the step before does not see."""
BERT = ("--epochs", "2", "--batch-size", "60", "--lr", "1e-3")
CHOICES = {
    "bf16": (),
    "fp16": (),
    "powersgd": ("--powersgd-rank", "2"),
    "local-sgd": ("--sync-every", "3"),
    "diloco": ("--sync-every", "3", "--outer-lr", "0.9", "--outer-momentum", "0.5"),
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


def test_two_processes_that_share_memory_train_as_ddp_does_to_the_last_bit(train: Launch) -> None:
    ddp, shared = train("mnist.ddp", 2, *SGD), train("mnist.ddp", 2, *SGD, "--communication", "shared-memory")
    same(ddp, shared, rtol=0, atol=0)
    assert ddp.losses == shared.losses
    told = [ended.first("communication")["metadata"]["reduced_bytes"] for ended in (ddp, shared)]
    assert told[0] == told[1] > 0


@pytest.mark.slow
def test_any_number_of_processes_can_share_memory(train: Launch) -> None:
    shared = train("mnist.ddp", 3, *SGD, "--communication", "shared-memory")
    same(train("mnist.ddp", 3, *SGD), shared)
    assert len({event["value"] for event in shared.all("parameters")}) == 1


APART = """
import os, sys
if os.environ["RANK"] == "1" and "APART" not in os.environ:
    os.environ["APART"] = "1"
    os.execvp("unshare", ["unshare", "--pid", "--fork", "--mount-proc", PYTHON, *sys.argv])
from experiments.mnist.ddp import main
main()
"""


@pytest.mark.slow
def test_processes_that_do_not_see_each_others_memory_are_refused_in_one_line(tmp_path: Path) -> None:
    apart = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False)
    if apart.returncode:
        pytest.skip("this user may not have a process namespace of his own")
    python = repr(sys.executable)  # a process that is forked from another one would be in that one's namespace
    (tmp_path / "apart.py").write_text(APART.replace("PYTHON", python))
    words = [str(tmp_path / "apart.py"), "--dataset", "digits", *SHORT_PEAK, *SGD, "--communication", "shared-memory"]
    ended = start(words, 2, {})
    assert "these processes do not see each other's memory" in ended.error
    assert "choose ddp" in ended.error


@pytest.mark.slow
def test_powersgd_is_exact_where_its_rank_suffices(train: Launch) -> None:
    ddp = train("mnist.ddp", 2, *LOW_RANK)
    exact = train("mnist.ddp", 2, *LOW_RANK, "--communication", "powersgd", "--powersgd-rank", "8")
    same(ddp, exact)


@pytest.mark.slow
def test_averaging_after_every_step_of_plain_sgd_is_ddp_and_now_and_then_is_not(train: Launch) -> None:
    ddp = train("mnist.ddp", 3, *SGD)
    same(ddp, train("mnist.ddp", 3, *SGD, "--communication", "local-sgd", "--sync-every", "1"))
    with pytest.raises(AssertionError):
        same(ddp, train("mnist.ddp", 3, *SGD, *chosen("local-sgd")))


@pytest.mark.slow
def test_an_outer_sgd_of_rate_one_without_momentum_is_local_sgd(train: Launch) -> None:
    outer = ("--outer-lr", "1", "--outer-momentum", "0", "--sync-every", "3")
    diloco = train("mnist.ddp", 3, *SGD, "--communication", "diloco", *outer)
    same(train("mnist.ddp", 3, *SGD, *chosen("local-sgd")), diloco)


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
    [chosen("powersgd"), ("--accumulate", "3", *chosen("diloco")), ("--communication", "shared-memory")],
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


@pytest.mark.parametrize("name", ["bf16", "powersgd", "diloco"])  # fp16 is as bf16, and local-sgd a part of diloco
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
    thin, biases = (6 + 25, 16 + 54, 120 + 400, 60 + 120, 10 + 60), 6 + 16 + 120 + 60 + 10
    for words, reduced in [
        ((), 4 * sum(sizes)),
        (chosen("fp16"), 2 * sum(sizes)),
        (chosen("powersgd"), 4 * (2 * sum(thin) + biases)),
        (chosen("local-sgd"), 4 * sum(sizes) * 4 / 8),  # of 4 steps an epoch: after the third, and at the end
    ]:
        data = train("mnist.ddp", 3, *SGD, *words).first("communication")["metadata"]
        assert data["reduced_bytes"] == pytest.approx(reduced, abs=0.1)
        assert data["sent_bytes"] == pytest.approx(2 * 2 / 3 * reduced, abs=0.1)
        assert data["moved_bytes"] == pytest.approx(3 * data["sent_bytes"], abs=0.5)
        assert data["steps"] == 8
    low = train("mnist.ddp", 3, *SGD, *chosen("powersgd"))  # what compresses is not counted as work of the model
    assert low.first("step_flops")["value"] == train("mnist.ddp", 3, *SGD).first("step_flops")["value"] > 0


def test_one_process_sends_nothing(train: Launch) -> None:
    for words in (("--communication", "shared-memory"), chosen("powersgd"), chosen("local-sgd")):
        ended = good(train("mnist.ddp", 1, *SGD, *words))
        assert ended.all("tracked_stats")[1]["value"]["communicated_bytes"] == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--powersgd-rank", "2"), "--powersgd-rank has no effect with --communication ddp: it is of powersgd"),
        (("--communication", "fp16", "--sync-every", "4"), "--sync-every has no effect with --communication fp16"),
        (("--communication", "diloco", "--outer-lr", "nan"), "--outer-lr nan: a learning rate is above 0"),
        (("--accumulate", "9999999999"), "and the training set has 1,438: take at most 3"),
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


def test_a_rank_by_which_no_gradient_becomes_smaller_is_refused() -> None:
    run: Any = None
    with pytest.raises(Refusal, match="--powersgd-rank 400: no gradient of this model .* take at most 92"):
        LowRank(run, MODELS["lenet-relu"](), 400, 1)


def test_a_refusal_is_one_line_of_a_run_that_has_the_defaults_of_its_communication(train: Launch) -> None:
    refused = train("mnist.ddp", 2, *SGD, "--communication", "diloco", "--outer-momentum", "1")
    assert "--outer-momentum 1.0: it is at least 0 and below 1" in refused.error
    assert [event["metadata"]["status"] for event in refused.all("run_stop")] == ["aborted"] * 2
    assert not refused.all("epoch_start")
    reported = refused.first("run_start")["metadata"]["args"]
    assert (reported["sync_every"], reported["outer_lr"], reported["powersgd_rank"]) == (32, 0.7, None)


UNLIKE = """
import os, sys, torch
error = float(sys.argv.pop())
if os.environ["RANK"] == "1":
    product = torch.mm
    torch.mm = lambda *pair, out: product(*pair, out=out).mul_(1 + error)
from experiments.mnist.ddp import main
main()
"""


@pytest.mark.slow
def test_processors_that_round_unlike_end_with_one_model(tmp_path: Path) -> None:
    (tmp_path / "unlike.py").write_text(UNLIKE)
    words = [str(tmp_path / "unlike.py"), "--dataset", "digits", *SHORT_PEAK, *SGD, *chosen("powersgd")]
    rounding, broken = (start([*words, error], 2, {}) for error in ("1e-6", "0.5"))
    assert good(rounding).first("communication")["metadata"]["aligned"] == 2
    assert len({event["value"] for event in rounding.all("parameters")}) == 1
    assert broken.code != 0
    assert "which is no rounding" in broken.stderr
