"""Measure whether processors and GPUs were throttled, and whether other processes use the GPUs."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from trainkit.own_processes import OwnProcesses

_CPUS = Path("/sys/devices/system/cpu")
CGROUPS, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_THROTTLED = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
_CPU = re.compile(r"cpu\d+")
# Bits of nvml.h, nvmlClocksThrottleReason...: HwSlowdown, SwThermalSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown.
# Power caps are not included: large GPUs reach them whenever they are busy.
_HINDERED = 0x08 | 0x20 | 0x40 | 0x80


def cpu_throttling(cpus: Path = _CPUS) -> Callable[[float], float] | None:
    """Return a function that tells for which percentage of the elapsed seconds the hottest package was throttled.

    None without kernel counters. Only Intel processors have these counters, and virtual machines lack them.
    Source: Documentation/ABI/testing/sysfs-devices-system-cpu, thermal_throttle.
    """
    packages: dict[str, Path] = {}
    with suppress(OSError):
        for cpu in sorted(cpus.iterdir()):
            counter = cpu / "thermal_throttle" / "package_throttle_total_time_ms"
            if _CPU.fullmatch(cpu.name) and counter.is_file():
                packages.setdefault((cpu / "topology" / "physical_package_id").read_text("ascii"), counter)
    before = {counter: _count(counter) for counter in packages.values()}
    if not before:
        return None

    def throttled(seconds: float) -> float:
        milliseconds = 0
        for counter, last in before.items():
            before[counter] = _count(counter)
            milliseconds = max(milliseconds, before[counter] - last)
        return round(min(100.0, milliseconds / 10 / seconds), 1)

    return throttled


def quota_throttling(cgroups: Path = CGROUPS, own: Path = OWN_CGROUPS) -> Callable[[], float] | None:
    """Return a function that gives the seconds for which a CPU quota of this process's cgroups has throttled it.

    The seconds are summed over processors. None without counters. A container sees its cgroup at the root, but the path
    that it reads may be the host's. Source: Documentation/admin-guide/cgroup-v2.rst, `cpu.stat` (microseconds); for
    version 1, in nanoseconds, Documentation/scheduler/sched-bwc.rst.
    """
    stats = {(group / "cpu.stat").resolve() for group in _own_groups(cgroups, own)}
    counted = [stat for stat in stats if _held_back(stat) is not None]
    return (lambda: sum(_held_back(stat) or 0.0 for stat in counted)) if counted else None


def quota_cores(cgroups: Path = CGROUPS, own: Path = OWN_CGROUPS) -> float | None:
    """Return the cores allowed by the CPU quotas of this process's cgroup and its ancestors; None without a quota.

    Source: Documentation/admin-guide/cgroup-v2.rst, `cpu.max`; for version 1, Documentation/scheduler/sched-bwc.rst,
    `cpu.cfs_quota_us`.
    """
    found = (_quota(group) for group in _own_groups(cgroups, own))
    return min((cores for cores in found if cores is not None), default=None)


def _quota(group: Path) -> float | None:
    with suppress(OSError, ValueError, ZeroDivisionError):
        if (group / "cpu.max").is_file():
            quota, period = (group / "cpu.max").read_text("ascii").split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text("ascii") for name in ("quota", "period"))
        cores = int(quota) / int(period)
        return cores if cores > 0 else None
    return None


def _own_groups(cgroups: Path, own: Path) -> Iterator[Path]:
    """Yield the possible folders of this process's CPU cgroups, up to the root."""
    with suppress(OSError, ValueError):
        for line in own.read_text("ascii", "replace").splitlines():
            _, controllers, path = line.split(":", 2)
            group = PurePosixPath(path.lstrip("/"))
            tops = [] if controllers else [cgroups]
            if "cpu" in controllers.split(","):
                tops = [cgroups / controllers, cgroups / "cpu"]
            yield from (top / folder for top in tops for folder in (group, *group.parents))


def _held_back(stat: Path) -> float | None:
    try:
        fields = dict(line.split(None, 1) for line in stat.read_text("ascii").splitlines())
        return next((int(fields[name]) * unit for name, unit in _THROTTLED.items() if name in fields), None)
    except (OSError, ValueError):
        return None


def gpus_hindered(pynvml: Any, handles: list[Any], own: OwnProcesses) -> dict[str, float]:
    """Return the percentages of these GPUs that are throttled (by heat or power supply) and that other processes use.

    Sharing is unknown where the driver shows none of our processes on a GPU, as it may in a container.
    """
    throttled, shared = [], []
    for handle in handles:
        with suppress(pynvml.NVMLError):
            throttled.append(bool(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) & _HINDERED))
        with suppress(pynvml.NVMLError):
            users = {int(process.pid) for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
            if os.getpid() in users or own.any_of(users):
                shared.append(not own.all_of(users))
    found = {"gpu_throttled_percent": throttled, "gpu_shared_percent": shared}
    return {name: round(100 * sum(flags) / len(flags), 1) for name, flags in found.items() if flags}


def _count(counter: Path) -> int:
    try:
        return int(counter.read_text("ascii"))
    except (OSError, ValueError):
        return 0
