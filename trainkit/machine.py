"""The machine that a process is on, as all containers on it see it; read without torch."""

import math
import os
import platform
from pathlib import Path
from typing import Any

from trainkit.throttling import CGROUPS, OWN_CGROUPS, quota_cores

_BOOT, _MEMORY, _CPUS = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/meminfo"), Path("/proc/cpuinfo")


def describe() -> dict[str, Any]:
    """Describe the machine: which one it is, and of what kind."""
    kernel = platform.platform().partition("-with-")[0]  # without the C library, which is a container's own
    words = _read(_MEMORY).partition("MemTotal:")[2].split(maxsplit=1)  # for example `MemTotal:   24684084 kB`
    memory = int(words[0]) * 1024 if words else None
    return {"machine": machine(), "cpu": cpu_model(), "memory_bytes": memory, "kernel": kernel}


def machine() -> str | None:
    """Name the machine by what all containers on it share: the random id that its kernel drew at the last boot."""
    return _read(_BOOT).strip() or None


def cpu_model() -> str:
    """Return the model of the CPU, or its architecture where no model can be read."""
    names = (line.partition(":")[2].strip() for line in _read(_CPUS).splitlines() if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def usable_cores(own: Path = OWN_CGROUPS, cgroups: Path = CGROUPS) -> float:
    """Return how many cores this process may use, by its affinity and by the quotas of its cgroups."""
    cores: float = min(len(os.sched_getaffinity(0)), round(quota_cores(cgroups, own) or math.inf, 2))
    return int(cores) if cores == int(cores) else cores


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
