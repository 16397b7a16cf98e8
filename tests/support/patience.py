"""How long a test waits: every bound in seconds of the wall goes through one factor, which follows the machine.

The first test that waits measures how long an empty torchrun, which imports torch, takes here and now; all workers of
the test run share the figure. When more processes want to run than did then, the factor grows with them. KIT_PATIENCE
is the least that it is.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

QUIET_SECONDS = 4.0
"""What an empty torchrun takes on two quiet cores."""
LEAST = float(os.environ.get("KIT_PATIENCE", "1"))
EMPTY = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", "--monitor-interval=0.1", "--no-python")


def patient(seconds: float) -> float:
    """Return how long to wait, on this machine as it is now, for what takes so many seconds at most on a quiet one."""
    slowness, crowded = _measured()
    return seconds * max(LEAST, slowness * max(1.0, crowding() / crowded))


def crowding() -> float:
    """Return how many processes want to run for each core, now or in the last minute; at least 1."""
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("procs_running "))
    return max(1.0, max(float(line.split()[1]), os.getloadavg()[0]) / len(os.sched_getaffinity(0)))


@cache
def _measured() -> tuple[float, float]:
    """Return how many times slower than usual this machine is, and how crowded it was when that was measured."""
    with (Path(os.environ["XDG_STATE_HOME"]) / "patience").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (text := file.read()):
            before = crowding()
            text = f"{_empty_torchrun_seconds() / QUIET_SECONDS} {max(before, crowding())}"
            file.write(text)
    slowness, crowded = map(float, text.split())
    return max(1.0, slowness), crowded


def _empty_torchrun_seconds() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, *EMPTY, "true"], check=True, capture_output=True)
    return time.monotonic() - began
