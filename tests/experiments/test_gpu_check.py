"""The check of a GPU machine, tried on a CPU: the same launches, small."""

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
def test_a_table_and_a_record_tell_what_each_program_did(tmp_path: Path) -> None:
    done = gpu_check(tmp_path, "--device", "cpu", "--small", "--only", "collectives")
    assert done.code == 0, done.stderr
    one, two = done.stdout.splitlines()[2:]
    assert one.split()[-1] == "done"  # one process sends nothing over a bus
    assert "all_reduce busbw" in two
    [path] = tmp_path.glob("gpu-check-1x-*-torch-*.json")
    record = json.loads(path.read_bytes())
    assert [(check["failed"], check["processes"]) for check in record["checks"]] == [(None, 1), (None, 2)]
    assert all(check["figures"]["all_reduce_seconds"] > 0 for check in record["checks"])


def test_what_cannot_be_checked_is_refused_in_one_line(tmp_path: Path) -> None:
    for words, said in (
        ([], "no GPU is seen"),
        (["--device", "cpu", "--small", "--only", "alchemy"], "--only alchemy"),
    ):
        done = gpu_check(tmp_path, *words)
        assert (done.code, done.stdout) == (2, "")
        [line] = done.stderr.splitlines()
        assert line.startswith(f"error: {said}")


def event(rank: int, seq: int, key: str, **metadata: object) -> dict[str, Any]:
    return {"key": key, "value": None, "metadata": {"rank": rank, "seq": seq, **metadata}}


END = {"key": "run_stop", "status": "success"}


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([event(0, 0, **END), event(1, 0, **END)], None),
        ([event(0, 0, **END)], "events of the ranks [0] only"),
        ([event(0, 0, **END), event(1, 1, **END)], "rank 1 lost events"),
        ([event(0, 0, **END), event(1, 0, "run_start")], "rank 1 did not end well"),
        ([event(0, 0, "epoch_stop", loss=None), event(0, 1, **END), event(1, 0, **END)], "the loss is no number"),
    ],
)
def test_a_check_is_well_only_if_every_rank_says_so(events: list[Any], said: str | None) -> None:
    assert verdict(2, events) == said
