"""The check of a GPU machine, tried on a CPU: the same launches, small."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.gpu_check.checks import Check
from bench.gpu_check.results import own_lines, read, verdict
from runner.core.ports import free_port
from tests.support.fork_server import command
from tests.support.projects import ROOT, Ended, complete


def gpu_check(folder: Path, *words: str) -> Ended:
    python = [command("python"), "-m", "bench.gpu_check", "--records", str(folder), "--data-dir", str(folder)]
    return complete([*python, *words], ROOT, {**os.environ, "CUDA_VISIBLE_DEVICES": ""})


@pytest.mark.slow
def test_a_table_and_a_record_tell_what_each_program_did(tmp_path: Path) -> None:
    done = gpu_check(tmp_path, "--device", "cpu", "--small", "--processes", "2", "--only", "collectives")
    assert done.code == 0, done.stderr
    head, _, *rows = done.stdout.splitlines()
    assert " ".join(head.split()) == "check processes train s samples/s speed-up GPU GB GPU % result"
    assert [row.partition("  ")[0] for row in rows] == ["collectives"] * 2
    assert rows[0].split()[-1] == "done"  # one process sends nothing over a bus
    assert "all_reduce busbw" in rows[1]
    [path] = tmp_path.glob("gpu-check-1x-*-torch-*.json")
    record = json.loads(path.read_bytes())
    assert [check["failed"] for check in record["checks"]] == [None] * 2
    assert [check["processes"] for check in record["checks"]] == [1, 2]
    assert all(check["figures"]["all_reduce_seconds"] > 0 for check in record["checks"])
    assert record["torch"] in done.stderr


def test_a_check_that_fails_is_told_with_its_own_words_and_the_others_go_on(tmp_path: Path) -> None:
    words = ["--device", "cpu", "--small", "--processes", "2", "--only", "resnet50", "--timeout-seconds", "0.1"]
    done = gpu_check(tmp_path, *words)
    assert done.code == 1
    assert done.stdout.count("failed: not done after 0.1 seconds") == 3
    assert "Traceback" not in done.stderr.splitlines()


def test_what_cannot_be_checked_is_refused_in_one_line(tmp_path: Path) -> None:
    for words, said in (
        ([], "no GPU is seen here: run it on a machine with one, or try the programs with --device cpu --small"),
        (["--device", "cpu", "--small", "--only", "alchemy"], "--only alchemy: no check's program begins so"),
    ):
        done = gpu_check(tmp_path, *words)
        assert (done.code, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1] == f"error: {said}"


def event(rank: int, seq: int, key: str, **metadata: object) -> dict[str, Any]:
    return {"key": key, "value": None, "metadata": {"rank": rank, "seq": seq, **metadata}}


END = {"key": "run_stop", "status": "success"}


@pytest.mark.parametrize(
    ("ended", "events", "said"),
    [
        (0, [event(0, 0, **END), event(1, 0, **END)], None),
        (7, [], "exit code 7"),
        ("not done", [], "not done"),
        (0, [event(0, 0, **END)], "events of the ranks [0] only"),
        (0, [event(0, 0, **END), event(1, 1, **END)], "rank 1 lost events"),
        (0, [event(0, 0, **END), event(1, 0, "run_start")], "rank 1 did not end well"),
        (0, [event(0, 0, "epoch_stop", loss=None), event(0, 1, **END), event(1, 0, **END)], "the loss is no number"),
    ],
)
def test_a_check_is_well_only_if_every_rank_says_so(ended: int | str, events: list[Any], said: str | None) -> None:
    assert verdict(Check("a", "b", {}, 2), ended, events) == said


def test_an_event_that_was_cut_off_is_missed() -> None:
    result = read(Check("a", "b", {}, 1), 0, b'\n:::MLLOG {"key": "run_st', b"", 1.0)
    assert result.failed == "events of the ranks [] only"


@pytest.mark.slow
def test_a_refusal_of_the_program_stands_before_the_launcher_s_report(tmp_path: Path) -> None:
    launcher = [
        command("torchrun"),
        f"--master-port={free_port()}",
        "--monitor-interval",
        "0.1",
        "--nproc-per-node",
        "1",
    ]
    words = ["-m", "experiments.resnet50.pipelined", "--device", "cpu", "--micro-batches", "9", "--batch-size", "4"]
    done = subprocess.run([*launcher, *words], cwd=ROOT, capture_output=True, check=False)
    assert own_lines(done.stderr) == ["error: --micro-batches 9: a batch has 4 images only"]
    result = read(Check("ResNet50", "resnet50.pipelined", {"data_dir": tmp_path}, 1), 1, done.stdout, done.stderr, 1.0)
    assert result.last_lines[-1] == "error: --micro-batches 9: a batch has 4 images only"
    assert json.dumps(result.args)
