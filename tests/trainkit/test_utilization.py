"""What a node does while a run lasts, as the first of its processes tells it."""

import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from trainkit import utilization as load
from trainkit.event_log import EventLog
from trainkit.own_processes import OwnProcesses
from trainkit.throttling import cpu_throttling, gpus_hindered
from trainkit.utilization import watching

ROOT = Path(__file__).parents[2]
COUNTER = "thermal_throttle/package_throttle_total_time_ms"


def told(path: Path) -> list[dict[str, Any]]:
    lines = [line for line in path.read_text().splitlines() if line]
    return [json.loads(line.removeprefix(":::MLLOG "))["metadata"] for line in lines]


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(fd=os.open(tmp_path / "lines", os.O_CREAT | os.O_WRONLY | os.O_APPEND))


def test_a_busy_second_is_seen_as_busy_and_a_block_ends_with_a_look(log: EventLog, tmp_path: Path) -> None:
    with watching(log):
        while not (tmp_path / "lines").stat().st_size:
            pass
        end = time.monotonic() + 2.5 * load.SHORTEST
        while time.monotonic() < end:
            pass
    first, *others, last = told(tmp_path / "lines")
    whole = psutil.virtual_memory().total
    for look in (first, last):
        assert 90 / (psutil.cpu_count() or 1) < look["cpu_percent"] <= 100
        assert 0 <= look["interrupts_percent"] < look["cpu_percent"]
        assert 0 < look["memory_bytes"] < whole
        assert min(look[f"{way}_bytes_per_second"] for way in ("sent", "received", "loopback")) >= 0
    assert (first["seq"], last["seq"]) == (0, len(others) + 1)


BUSY = """
import os, subprocess, sys, time
from trainkit.event_log import EventLog
from trainkit.utilization import watching
log = EventLog()
log.point("begin")
loop = "import time; end = time.process_time() + 1.0\\nwhile time.process_time() < end: pass"
with watching(log):
    time.sleep(0.2)
    subprocess.run([sys.executable, "-c", loop])
    exec(loop)
print("used", os.times())
"""


@pytest.mark.slow
def test_what_the_run_s_own_processes_use_is_told_apart_from_what_others_use() -> None:
    """Two seconds of CPU time are the run's, one of them a child's that has ended; a loop beside it is not."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        done = subprocess.run([sys.executable, "-c", BUSY], cwd=ROOT, capture_output=True, text=True, check=True)
    finally:
        other.kill()
        other.wait()
    looks = [json.loads(line.removeprefix(":::MLLOG ")) for line in done.stdout.splitlines() if line.startswith(":::")]
    cores = os.cpu_count() or 1
    seconds = [(after["time_ms"] - before["time_ms"]) / 1000 for before, after in pairwise(looks)]
    loads = [look["metadata"] for look in looks[1:]]
    own = [load["own_cpu_percent"] * cores / 100 for load in loads]
    assert sum(share * length for share, length in zip(own, seconds, strict=True)) == pytest.approx(2.0, abs=0.5)
    assert sum(load["cpu_percent"] - load["own_cpu_percent"] for load in loads) > 0


def test_without_torchrun_a_process_answers_for_itself_and_what_it_started() -> None:
    own = OwnProcesses()
    assert own.all_of({os.getpid()})
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert own.all_of({os.getpid(), child.pid})  # found as soon as it is asked for
        assert own.any_of({child.pid, 1})
        assert not own.all_of({child.pid, 1})
    finally:
        child.kill()
        child.wait()


def test_throttling_is_that_of_the_hottest_package_in_percent_of_the_time(tmp_path: Path) -> None:
    assert cpu_throttling(tmp_path / "none") is None
    for cpu, package in ((0, 0), (1, 0), (2, 1)):
        for place, text in (("topology/physical_package_id", package), (COUNTER, 1000)):
            file = tmp_path / f"cpu{cpu}" / place
            file.parent.mkdir(parents=True)
            file.write_text(f"{text}\n")
    (tmp_path / "cpufreq").mkdir()
    throttled = cpu_throttling(tmp_path)
    assert throttled is not None
    assert throttled(1.0) == 0
    (tmp_path / "cpu0" / COUNTER).write_text("1100\n")
    (tmp_path / "cpu2" / COUNTER).write_text("1250\n")
    assert throttled(1.0) == 25.0
    assert throttled(1.0) == 0


class Nvml:
    """Eight GPUs as NVML counts them; the real one needs a driver."""

    nvmlDeviceGetHandleByIndex = staticmethod(int)  # noqa: N815 - NVML's names

    @staticmethod
    def nvmlDeviceGetCount() -> int:  # noqa: N802
        return 8

    @staticmethod
    def nvmlDeviceGetUUID(handle: int) -> str:  # noqa: N802
        return f"GPU-{'abcdefgh'[handle]}{handle:07d}-0000"


class Busy(Nvml):
    """Two GPUs: the first is throttled by its temperature, and on the second somebody else is beside us."""

    NVMLError = RuntimeError
    users = ({os.getpid()}, {os.getpid(), 1})

    @staticmethod
    def nvmlDeviceGetCurrentClocksThrottleReasons(handle: int) -> int:  # noqa: N802
        return (0x40, 0x04)[handle]

    @classmethod
    def nvmlDeviceGetComputeRunningProcesses(cls, handle: int) -> list[Namespace]:  # noqa: N802
        return [Namespace(pid=pid) for pid in cls.users[handle]]


def test_gpus_are_throttled_by_heat_and_not_by_a_cap_and_others_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    told = gpus_hindered(Busy, [0, 1], OwnProcesses())
    assert told == {"gpu_throttled_percent": 50.0, "gpu_shared_percent": 50.0}
    monkeypatch.setattr(Busy, "users", (set(), {1}))
    assert gpus_hindered(Busy, [0, 1], OwnProcesses()) == {"gpu_throttled_percent": 50.0}


@pytest.mark.parametrize(
    ("chosen", "seen"),
    [
        (None, [*range(8)]),
        ("", []),
        ("GPU-c0000002-0000, GPU-a", [2, 0]),
        ("1,-1,2", [1]),  # as CUDA reads it: what follows the first one that is not there is not seen
    ],
)
def test_gpus_are_those_that_the_process_may_see_in_its_order(chosen: str | None, seen: list[int]) -> None:
    assert load.visible_gpus(Nvml, chosen) == seen
