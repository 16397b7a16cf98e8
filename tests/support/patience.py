"""How long a test waits: every bound in seconds of the wall goes through one factor, which follows the machine.

The first test that waits measures how long an empty torchrun, which imports torch, takes here and now, in seconds of
the wall and of the processor; all workers of the test run share the figures. The factor grows with the number of
processes that want to run. KIT_PATIENCE is the least that it is.
"""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from runner.core.ports import free_port

QUIET_SECONDS = 4.0
"""What an empty torchrun takes on two quiet cores, and on one of them alone."""
LEAST = float(os.environ.get("KIT_PATIENCE") or 1)
EMPTY = ("-m", "torch.distributed.run", "--nproc-per-node=1", "--monitor-interval=0.1", "--no-python")


def patient(seconds: float) -> float:
    """Return how long to wait, on this machine as it is now, for what takes so many seconds at most on a quiet one."""
    wall, processor = _measured()
    return seconds * max(LEAST, wall, processor * crowding())


def crowding() -> float:
    """Return how many processes want to run for each core, now or in the last minute; at least 1."""
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("procs_running "))
    return max(1.0, max(float(line.split()[1]), os.getloadavg()[0]) / len(os.sched_getaffinity(0)))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if a block takes longer than is promised, on this machine as it is before the block or after it."""
    bound, began = patient(seconds), time.monotonic()
    yield
    took, bound = time.monotonic() - began, max(bound, patient(seconds))
    assert took < bound, f"it took {took:.1f} s, and {seconds:g} s are promised: {bound:.1f} s on this machine"


@contextmanager
def quick(seconds: float) -> Iterator[None]:
    """Fail if a block takes longer than this of the processor, which others share."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


@cache
def _measured() -> tuple[float, float]:
    """Return how many times slower than usual this machine was by the wall's clock, and by the processor's."""
    with (Path(os.environ["XDG_STATE_HOME"]) / "patience").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (text := file.read()):
            text = " ".join(str(seconds / QUIET_SECONDS) for seconds in _empty_torchrun_seconds())
            file.write(text)
    wall, processor = map(float, text.split())
    return wall, max(1.0, processor)


def _empty_torchrun_seconds() -> tuple[float, float]:
    before = os.times()
    words = [*EMPTY, f"--master-port={free_port()}", "true"]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = os.times()
    used = [times.children_user + times.children_system for times in (before, after)]
    return after.elapsed - before.elapsed, used[1] - used[0]
