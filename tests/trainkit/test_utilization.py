"""What a node does while a run lasts, as the first of its processes tells it."""

import json
import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.experiments.conftest import start
from trainkit import utilization as load
from trainkit.event_log import EventLog
from trainkit.utilization import Utilization


def told(path: Path) -> list[dict[str, Any]]:
    lines = [line for line in path.read_text().splitlines() if line]
    return [json.loads(line.removeprefix(":::MLLOG "))["metadata"] for line in lines]


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(fd=os.open(tmp_path / "lines", os.O_CREAT | os.O_WRONLY | os.O_APPEND))


def test_a_busy_second_is_seen_as_busy_and_a_block_ends_with_a_look(log: EventLog, tmp_path: Path) -> None:
    with Utilization(log):
        end = time.monotonic() + load.SECONDS + 2.5 * load.SHORTEST
        while time.monotonic() < end:
            pass
    first, last = told(tmp_path / "lines")
    whole = psutil.virtual_memory().total
    for look in (first, last):
        assert 90 / (psutil.cpu_count() or 1) < look["cpu_percent"] <= 100
        assert 0 < look["memory_bytes"] < whole
        assert min(look[f"{way}_bytes_per_second"] for way in ("sent", "received", "loopback")) >= 0
    assert [look["seq"] for look in (first, last)] == [0, 1]


def test_a_block_that_is_over_at_once_tells_nothing(log: EventLog, tmp_path: Path) -> None:
    with Utilization(log):
        pass
    assert told(tmp_path / "lines") == []


def test_the_first_process_of_a_node_tells_and_no_event_of_its_own_is_lost() -> None:
    run = start(["-m", "experiments.toy.ddp", "--steps", "3000"], 3, {})
    assert run.code == 0, run.stderr
    assert {event["metadata"]["rank"] for event in run.events if event["key"] == "load"} == {0}
    for rank in range(3):
        own = [event for event in run.events if event["metadata"]["rank"] == rank]
        assert [event["metadata"]["seq"] for event in own] == list(range(len(own)))
        assert own[-1]["key"] == "run_stop"


class Nvml:
    """Eight GPUs as NVML counts them; the real one needs a driver."""

    nvmlDeviceGetHandleByIndex = staticmethod(int)  # noqa: N815 - NVML's names

    @staticmethod
    def nvmlDeviceGetCount() -> int:  # noqa: N802
        return 8

    @staticmethod
    def nvmlDeviceGetUUID(handle: int) -> str:  # noqa: N802
        return f"GPU-{'abcdefgh'[handle]}{handle:07d}-0000"


@pytest.mark.parametrize(
    ("chosen", "seen"),
    [
        (None, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("", []),
        ("3", [3]),
        ("5,2", [5, 2]),
        ("GPU-c0000002-0000, GPU-a", [2, 0]),
        ("1,-1,2", [1]),  # as CUDA reads it: what follows the first one that is not there is not seen
        ("1,9,2", [1]),
    ],
)
def test_gpus_are_those_that_the_process_may_see_in_its_order(chosen: str | None, seen: list[int]) -> None:
    assert load.visible_gpus(Nvml, chosen) == seen


def test_without_nvml_there_is_nothing_to_tell_of_gpus() -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    assert load.gpu_sampler(2) is None
    assert load.gpu_sampler(0) is None
