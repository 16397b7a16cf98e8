"""The check of a GPU machine, tried on a CPU with the same launches at small sizes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bench.gpu_check import verdict
from tests.support.fork_server import command
from tests.support.projects import ROOT, Ended, complete


def gpu_check(folder: Path, *words: str) -> Ended:
    python = [command("python"), "-m", "bench.gpu_check", "--records", str(folder)]
    return complete([*python, *words], ROOT, {**os.environ, "CUDA_VISIBLE_DEVICES": ""})


@pytest.mark.slow
def test_the_check_prints_a_table_and_writes_a_record(tmp_path: Path) -> None:
    done = gpu_check(tmp_path, "--device", "cpu", "--small", "--only", "collectives")
    assert done.code == 0, done.stderr
    one, two = done.stdout.splitlines()[2:]
    assert one.split()[-1] == "done"  # one process uses no bus
    assert "all_reduce busbw" in two
    [path] = tmp_path.glob("gpu-check-1x-*-torch-*.json")
    record = json.loads(path.read_bytes())
    assert [(check["failed"], check["processes"]) for check in record["checks"]] == [(None, 1), (None, 2)]


def test_a_machine_without_a_gpu_is_refused(tmp_path: Path) -> None:
    done = gpu_check(tmp_path)
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("error: no GPU")


def event(rank: int, seq: int, key: str = "run_stop", **metadata: object) -> dict[str, Any]:
    return {"key": key, "metadata": {"rank": rank, "seq": seq, "status": "success", **metadata}}


@pytest.mark.parametrize(
    ("events", "word"),
    [
        ([event(0, 0)], "only"),
        ([event(0, 0), event(1, 1)], "rank 1 lost"),
        ([event(0, 0), event(1, 0, "run_start")], "rank 1 failed"),
        ([event(0, 0, "epoch_stop", loss=None), event(0, 1), event(1, 0)], "loss"),
    ],
)
def test_a_check_passes_only_if_every_rank_reports_success(events: list[Any], word: str) -> None:
    assert word in str(verdict(2, events))
    assert verdict(2, [event(0, 0), event(1, 0)]) is None
