"""The utilization of a node during a run."""

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


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in text.splitlines() if line.startswith(":::")]


def test_a_busy_second_is_reported_as_busy_and_a_block_ends_with_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with watching(EventLog(fd=os.open(path, os.O_CREAT | os.O_WRONLY))):
        while not path.stat().st_size:
            pass
        end = time.monotonic() + 2.5 * load.SHORTEST
        while time.monotonic() < end:
            pass
    looks = [look["metadata"] for look in events(path.read_text())]
    for look in (looks[0], looks[-1]):
        assert 90 / (psutil.cpu_count() or 1) < look["cpu_percent"] <= 100
        assert 0 <= look["interrupts_percent"] < look["cpu_percent"]
        assert 0 < look["memory_bytes"] < psutil.virtual_memory().total
        assert min(look[f"{way}_bytes_per_second"] for way in ("sent", "received", "loopback")) >= 0
    assert [look["seq"] for look in looks] == list(range(len(looks)))
    assert len(looks) > 1


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
def test_the_run_s_own_processes_are_distinguished_from_others() -> None:
    """The run uses two seconds of CPU time, one of them in a child that has ended; a loop beside it is another's."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            out = subprocess.check_output([sys.executable, "-c", BUSY], cwd=ROOT, text=True)
        finally:
            other.kill()
    looks = events(out)
    loads = [look["metadata"] for look in looks[1:]]
    seconds = [(after["time_ms"] - before["time_ms"]) / 1000 for before, after in pairwise(looks)]
    own = [load["own_cpu_percent"] * length / 100 for load, length in zip(loads, seconds, strict=True)]
    assert sum(own) * (os.cpu_count() or 1) == pytest.approx(2.0, abs=0.5)
    assert sum(load["cpu_percent"] - load["own_cpu_percent"] for load in loads) > 0


def test_own_processes_are_this_one_and_its_children_without_torchrun() -> None:
    own = OwnProcesses()
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert own.all_of({os.getpid(), child.pid})  # new processes are searched for
            assert own.any_of({child.pid, 1})
            assert not own.all_of({child.pid, 1})
        finally:
            child.kill()


def test_cpu_throttling_is_the_percentage_of_the_hottest_package(tmp_path: Path) -> None:
    assert cpu_throttling(tmp_path / "none") is None
    for cpu, package in ((0, 0), (1, 0), (2, 1)):
        for place, text in (("topology/physical_package_id", package), (COUNTER, 1000)):
            file = tmp_path / f"cpu{cpu}" / place
            file.parent.mkdir(parents=True)
            file.write_text(f"{text}\n")
    (tmp_path / "cpufreq").mkdir()
    throttled = cpu_throttling(tmp_path)
    (tmp_path / "cpu0" / COUNTER).write_text("1100\n")
    (tmp_path / "cpu2" / COUNTER).write_text("1250\n")
    assert [throttled(1.0), throttled(1.0)] == [25.0, 0.0]


def test_heat_counts_as_throttling_and_a_power_cap_does_not() -> None:
    for users, shared in (((os.getpid(),), (os.getpid(), 1)), {"gpu_shared_percent": 50.0}), (((), (1,)), {}):
        nvml = Namespace(
            NVMLError=RuntimeError,
            nvmlDeviceGetCurrentClocksThrottleReasons=(0x40, 0x04).__getitem__,
            nvmlDeviceGetComputeRunningProcesses=lambda gpu, users=users: [Namespace(pid=pid) for pid in users[gpu]],
        )
        assert gpus_hindered(nvml, [0, 1], OwnProcesses()) == {"gpu_throttled_percent": 50.0, **shared}


@pytest.mark.parametrize(
    ("chosen", "seen"),
    [
        (None, [*range(8)]),
        ("", []),
        ("GPU-c0000002-0000, GPU-a", [2, 0]),
        ("1,-1,2", [1]),  # CUDA ignores the list from the first invalid GPU on
    ],
)
def test_visible_gpus_are_in_the_order_of_cuda(chosen: str | None, seen: list[int]) -> None:
    nvml = Namespace(
        nvmlDeviceGetCount=lambda: 8,
        nvmlDeviceGetHandleByIndex=int,
        nvmlDeviceGetUUID=lambda gpu: f"GPU-{'abcdefgh'[gpu]}{gpu:07d}-0000",
    )
    assert load.visible_gpus(nvml, chosen) == seen
