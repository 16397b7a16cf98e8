"""Whether processors and GPUs had to slow down, and whether others are on the GPUs."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainkit.own_processes import OwnProcesses

_CPUS = Path("/sys/devices/system/cpu")
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


def gpus_hindered(pynvml: Any, handles: list[Any], own: OwnProcesses) -> dict[str, float]:
    """Say in percent how many of these GPUs are throttled by heat or their power supply, and how many others use.

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
    return {name: round(100 * sum(ones) / len(ones), 1) for name, ones in found.items() if ones}


def _count(counter: Path) -> int:
    try:
        return int(counter.read_text("ascii"))
    except (OSError, ValueError):
        return 0
