"""Whether processors and GPUs had to slow down, and whether others are on the GPUs."""

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
# A power cap is no such reason: large GPUs meet it whenever they are busy.
_HINDERED = 0x08 | 0x20 | 0x40 | 0x80


def cpu_throttling(cpus: Path = _CPUS) -> Callable[[float], float] | None:
    """Return what says in percent of some seconds how long the hottest processor package was throttled since before.

    None where the kernel does not count it: only Intel's processors have the counters, and no virtual machine.
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
    """Return what gives the seconds for which a CPU quota has held this process back, of its group or one above it.

    They are summed up over processors, so they can exceed the time that has passed. None where the kernel counts no
    quota. A container sees its own group at the root, and may read the path that it has on the host. Source:
    Documentation/admin-guide/cgroup-v2.rst, `cpu.stat` (microseconds); of version 1, in nanoseconds,
    Documentation/scheduler/sched-bwc.rst.
    """
    stats = {(group / "cpu.stat").resolve() for group in _own_groups(cgroups, own)}
    counted = [stat for stat in stats if _held_back(stat) is not None]
    return (lambda: sum(_held_back(stat) or 0.0 for stat in counted)) if counted else None


def quota_cores(cgroups: Path = CGROUPS, own: Path = OWN_CGROUPS) -> float | None:
    """Return how many processors a CPU quota leaves to this process's group: the least of its group and those above it.

    None without a quota. Source: Documentation/admin-guide/cgroup-v2.rst, `cpu.max`; of version 1,
    Documentation/scheduler/sched-bwc.rst, `cpu.cfs_quota_us`.
    """
    found = (_quota(group) for group in _own_groups(cgroups, own))
    return min((cores for cores in found if cores is not None), default=None)


def _quota(group: Path) -> float | None:
    """Return the processors that the quota of a group leaves to it; None without one."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        if (group / "cpu.max").is_file():
            quota, period = (group / "cpu.max").read_text("ascii").split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text("ascii") for name in ("quota", "period"))
        cores = int(quota) / int(period)
        return cores if cores > 0 else None
    return None


def _own_groups(cgroups: Path, own: Path) -> Iterator[Path]:
    """Yield where the groups of this process that have a processor's time to share can be, up to the root."""
    with suppress(OSError, ValueError):
        for line in own.read_text("ascii", "replace").splitlines():
            _, controllers, path = line.split(":", 2)
            group = PurePosixPath(path.lstrip("/"))
            tops = [] if controllers else [cgroups]
            if "cpu" in controllers.split(","):
                tops = [cgroups / controllers, cgroups / "cpu"]
            yield from (top / folder for top in tops for folder in (group, *group.parents))


def _held_back(stat: Path) -> float | None:
    """Return the seconds for which the quota of a group has held it back; None if it counts none."""
    try:
        fields = dict(line.split(None, 1) for line in stat.read_text("ascii").splitlines())
        return next((int(fields[name]) * unit for name, unit in _THROTTLED.items() if name in fields), None)
    except (OSError, ValueError):
        return None


def gpus_hindered(pynvml: Any, handles: list[Any], own: OwnProcesses) -> dict[str, float]:
    """Return in percent how many of these GPUs are throttled by heat or their power supply, and how many others use.

    Where the driver shows none of our processes on a GPU (in a container it may show none at all), it is not known
    whose the others are.
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
