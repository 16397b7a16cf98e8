"""The MNIST programs on the digits."""

from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.mnist.model import MODELS
from tests.experiments.conftest import ROOT, SHORT_PEAK, Launch, good, start
from trainkit.process_facts import sources_sha256
from trainkit.sources import hash_sources, read_sources

ODD = ("--epochs", "1", "--batch-size", "479", "--model", "lenet-relu")
"""1,438 = 3 x 479 + 1: only one rank has a sample of the last batch."""
ALIKE = ("--epochs", "2", "--batch-size", "479", "--model", "lenet-relu", "--optimizer", "sgd",
         "--lr", "0.1", "--momentum", "0.9", "--augment", "affine")  # fmt: skip
RANDOM = ("--epochs", "1", "--batch-size", "180", "--model", "conv3-bn", "--optimizer", "sgd",
          "--lr", "0.02", "--momentum", "0.9", "--lr-rule", "linear", "--scaling", "weak")  # fmt: skip


def check_stream(ended: Any, world: int) -> None:
    """Assert that every rank reports all phases in order, and its end."""
    phases = ["data_stop", "setup_stop", "warmup_stop", "epoch_stop", "eval_stop", "parameters", "tracked_stats"]
    for rank in range(world):
        keys = dict.fromkeys(event["key"] for event in good(ended).events if event["metadata"]["rank"] == rank)
        assert [key for key in keys if key in phases] == phases
        assert ("seed" in keys) == ("eval_accuracy" in keys) == (rank == 0)


@pytest.mark.parametrize("world", [None, 2])
def test_every_sample_counts_once_and_the_loss_is_that_of_one_process(train: Launch, world: int | None) -> None:
    single, ended = train("mnist.single", None, *ODD), train("mnist.ddp", world, *ODD)
    check_stream(ended, world or 1)
    assert ended.told("run_start", "threads") == [1] * (world or 1)
    for key in ("epoch_stop", "eval_accuracy"):
        expected = single.first(key)["metadata"]["loss"]
        assert ended.first(key)["metadata"]["loss"] == pytest.approx(expected, rel=1e-4)
    assert sum(ended.told("epoch_stop", "samples")) == 1438
    assert sum(ended.told("eval_stop", "samples")) == 359
    assert set(ended.told("epoch_stop", "steps")) == {4}
    accuracy = ended.first("eval_accuracy")
    assert accuracy["value"] == accuracy["metadata"]["correct"] / 359


@pytest.mark.parametrize(
    ("program", "world", "words"),
    [
        ("mnist.ddp", 3, ()),
        ("mnist.manual", 3, ()),
        pytest.param(
            *("mnist.spawn", None, ("--communication", "local-sgd", "--sync-every", "1", "--balance", "1,1")),
            marks=pytest.mark.slow,
        ),
        ("mnist.data_parallel", None, ()),
    ],
)
def test_parameters_are_those_of_one(train: Launch, program: str, world: int | None, words: tuple[str, ...]) -> None:
    single, several = train("mnist.single", None, *ALIKE), train(program, world, *ALIKE, *words)
    check_stream(several, world or (2 if program == "mnist.spawn" else 1))
    assert len(single.parameters) == 10
    for name, expected in single.parameters.items():
        torch.testing.assert_close(several.parameters[name], expected, rtol=1e-3, atol=1e-5)
    assert len(set(several.values("parameters"))) == 1


def test_gradients_that_are_not_averaged_end_the_run(train: Launch) -> None:
    ended = train("mnist.manual", 2, *ALIKE, sabotage="add_gradients")
    assert ended.code != 0
    assert "parameters of rank 1" in ended.stderr
    assert set(ended.told("run_stop", "status")) == {"aborted"}
    assert not ended.all("warmup_stop")


@pytest.mark.parametrize(
    "words",
    [
        (),
        pytest.param(("--communication", "bf16"), marks=pytest.mark.slow),
        pytest.param(
            ("--communication", "local-sgd", "--sync-every", "3", "--accumulate", "3"), marks=pytest.mark.slow
        ),
    ],
)
def test_one_seed_makes_two_runs_alike_to_the_last_bit(train: Launch, words: tuple[str, ...]) -> None:
    # BatchNorm, dropout and momentum; a warm-up and a measurement leave no trace.
    warm = train("mnist.ddp", 2, *RANDOM, *words)
    cold = train("mnist.ddp", 2, *RANDOM, *words, "--warmup-steps", "0", "--peak-milliseconds", "0")
    assert good(warm).losses == good(cold).losses
    assert len({*warm.values("parameters"), *cold.values("parameters")}) == 1
    for ended, measured in ((warm, True), (cold, False)):
        assert ("flops_per_second" in ended.stats) == bool(ended.all("matmul_peak")) == measured
    told = warm.first("epoch_stop")["metadata"]
    if not words:
        assert (told["global_batch_size"], told["lr"], told["steps"]) == (360, 0.04, 4)  # weak scaling, the linear rule


def test_training_time_excludes_tests_and_loading_and_both_accuracies_are_reported(train: Launch) -> None:
    ended = train("mnist.single", None, *ALIKE)
    stats = ended.stats
    accuracies = ended.values("eval_accuracy")
    assert stats["final_accuracy"] == accuracies[-1]
    assert stats["best_accuracy"] == max(accuracies) == accuracies[stats["best_epoch"] - 1]
    assert stats["peak_bytes"] > 10**8
    epochs = sum(ended.told("epoch_stop", "train_seconds"))
    assert stats["train_seconds"] == pytest.approx(epochs)
    assert stats["eval_seconds"] == pytest.approx(sum(ended.told("eval_stop", "seconds")))
    assert stats["samples_per_second"] == pytest.approx(2 * 1438 / epochs)


def test_a_start_reports_the_facts_of_the_process(train: Launch) -> None:
    told = train("mnist.ddp", 2, *ODD).all("run_start")[1]["metadata"]
    assert (told["program"], told["backend"], told["args"]["batch_size"]) == ("mnist.ddp", "gloo", 479)
    assert (told["env"]["OMP_NUM_THREADS"], "PATH" in told["env"]) == ("1", False)
    assert told["sources_sha256"] == hash_sources(read_sources(ROOT, "mnist.ddp")) == sources_sha256("mnist.single")


@pytest.mark.parametrize(
    ("program", "world", "words", "text"),
    [
        ("mnist.ddp", 2, ("--dataset", "mnist", "--data-dir", "/nowhere"), "`runner prepare mnist`"),
        ("mnist.data_parallel", None, ("--devices", "2"), "2 devices"),
    ],
)
def test_a_refusal_is_one_line_and_every_rank_reports_its_end(
    train: Launch, program: str, world: int | None, words: tuple[str, ...], text: str
) -> None:
    ended = train(program, world, *words)
    assert text in ended.error
    assert ended.told("run_stop", "status") == ["aborted"] * (world or 1)
    assert not ended.all("epoch_start")
    assert "Traceback" not in ended.stderr


LATE = """
import os, sys, time
time.sleep(2 * (os.environ["LOCAL_RANK"] == sys.argv.pop()))
from experiments.mnist.ddp import main
main()
"""


@pytest.mark.parametrize("late", ["0", "2"])
def test_a_refusal_waits_for_a_late_neighbour(late: str, tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    ended = start([str(tmp_path / "late.py"), "--dataset", "digits", "--device", "cuda", late], 3)
    assert "3 GPUs" in ended.error
    assert ended.told("run_stop", "status") == ["aborted"] * 3


def test_data_parallel_on_the_cpu_uses_the_plain_model_also_on_a_machine_with_gpus(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "import sys, torch\n"
        "from experiments.mnist.data_parallel import main\n"
        "sys.modules['torch.nn.parallel.data_parallel']._get_available_device_type = lambda: 'cuda'\n"
        "main()\n"
    )
    good(start([str(path), "--device", "cpu", "--dataset", "digits", *SHORT_PEAK, *ODD]))


def test_the_published_loader_trains_the_same_model(train: Launch) -> None:
    resident = train("mnist.single", None, *ODD)
    torchvision = train("mnist.single", None, *ODD, "--loader", "torchvision")
    assert torchvision.first("dataset")["metadata"]["loader"] == "torchvision"
    assert torchvision.losses == resident.losses


def test_the_exchanged_bytes_are_counted(train: Launch) -> None:
    parameters = sum(parameter.numel() for parameter in MODELS["lenet-relu"]().parameters())
    for program, processes, words in (("ddp", None, ODD), ("ddp", 2, ODD), ("manual", 3, ALIKE)):
        data, n = train(f"mnist.{program}", processes, *words).first("traffic")["metadata"], processes or 1
        assert (data["all_reduce_bytes"], data["broadcast_bytes"]) == (4 * parameters, 0)
        assert data["moved_bytes"] == 2 * (n - 1) * 4 * parameters
        assert data["busiest_device_bytes"] * n == pytest.approx(2 * data["moved_bytes"])
    buffers = sum(buffer.nbytes for buffer in MODELS["conv3-bn"]().buffers())
    assert train("mnist.ddp", 2, *RANDOM).first("traffic")["metadata"]["broadcast_bytes"] == buffers > 0


def test_the_parser_of_mlcommons_reads_the_events(train: Launch, tmp_path: Path) -> None:
    from mlperf_logging.compliance_checker.mlp_parser import parse_file

    ended = train("mnist.ddp", 2, *ODD)
    path = tmp_path / "stdout.log"
    path.write_bytes(ended.stdout)
    lines, errors = parse_file(str(path), ruleset="4.1.0")
    assert not errors
    assert len(lines) == len(ended.events) > 30
