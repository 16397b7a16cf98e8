"""Facts about the machine that are the same in all its containers. The module does not import torch."""

import math
import os
import platform
from pathlib import Path
from typing import Any

from trainkit.throttling import CGROUPS, OWN_CGROUPS, quota_cores

_BOOT, _MEMORY, _CPUS = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/meminfo"), Path("/proc/cpuinfo")


def describe() -> dict[str, Any]:
    """Return the machine's id, CPU model, memory and kernel."""
    kernel = platform.platform().partition("-with-")[0]  # without the container's C library
    words = _read(_MEMORY).partition("MemTotal:")[2].split(maxsplit=1)  # for example `MemTotal:   24684084 kB`
    memory = int(words[0]) * 1024 if words else None
    return {"machine": machine(), "cpu": cpu_model(), "memory_bytes": memory, "kernel": kernel}


def machine() -> str | None:
    """Return the kernel's boot id, which all containers on a machine share; None if unreadable."""
    return _read(_BOOT).strip() or None


def cpu_model() -> str:
    """Return the model of the CPU, or its architecture if no model can be read."""
    names = (line.partition(":")[2].strip() for line in _read(_CPUS).splitlines() if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def usable_cores(own: Path = OWN_CGROUPS, cgroups: Path = CGROUPS) -> float:
    """Return the number of cores that this process may use, limited by its affinity and its cgroups' quotas."""
    cores: float = min(len(os.sched_getaffinity(0)), round(quota_cores(cgroups, own) or math.inf, 2))
    return int(cores) if cores == int(cores) else cores


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
