"""Report a node's utilization during a run (processors, memory, network, GPUs) in one `load` event per second.

The first process of every node samples in a thread: psutil for the whole machine (also inside a container), NVML
(nvidia-ml-py) for GPUs. Fields of a missing package are left out. Other users of the machine take `cpu_percent` minus
`own_cpu_percent` (the run's processes on this node) and `interrupts_percent` (the kernel serves devices, such as a
link). All are percentages of the machine's cores. Other users include a virtual machine's stolen time.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from trainkit.event_log import EventLog
from trainkit.own_processes import OwnProcesses
from trainkit.throttling import cpu_throttling, gpus_hindered

SECONDS = 1.0
SHORTEST = 0.1
"""Minimum seconds between the last two samples; a shorter interval is meaningless."""
_INSIDE = ("lo", "veth", "docker", "br-", "cni", "virbr")
"""Prefixes of interfaces whose traffic stays on the machine or is also counted elsewhere."""

Sample = Callable[[], dict[str, float]]


@contextmanager
def watching(log: EventLog, gpus: int = 0) -> Iterator[None]:
    """Report the node and its first `gpus` visible GPUs every second during a block, and once at the end."""
    end = threading.Event()
    thread = threading.Thread(target=_watch, args=(log, gpus, end), name="utilization", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _watch(log: EventLog, gpus: int, end: threading.Event) -> None:
    # Samplers are created in this thread, because psutil keeps the last sample per thread.
    own = OwnProcesses()
    samples = [sample for sample in (machine_sampler(), own_sampler(own), gpu_sampler(gpus, own)) if sample]
    began = last = time.monotonic()
    ended = not samples
    while not ended:
        ended = end.wait(max(0.0, SECONDS - (time.monotonic() - began) % SECONDS))
        if not ended or time.monotonic() - last >= SHORTEST:
            last = time.monotonic()
            log.point("load", **{name: value for sample in samples for name, value in sample().items()})


def machine_sampler() -> Sample | None:
    """Return a sampler of processors, memory and network; rates are since the last sample. None without psutil."""
    try:
        import psutil  # optional
    except ImportError:
        return None
    state: dict[str, Any] = {"time": time.monotonic(), "moved": _moved(psutil)}
    throttled = cpu_throttling()
    psutil.cpu_times_percent()  # start of the first interval

    def sample() -> dict[str, float]:
        now, moved = time.monotonic(), _moved(psutil)
        seconds = now - state["time"] or SECONDS
        rates = {f"{name}_bytes_per_second": round((moved[name] - state["moved"][name]) / seconds) for name in moved}
        state.update(time=now, moved=moved)
        memory = psutil.virtual_memory()
        times = psutil.cpu_times_percent()._asdict()  # since the last call
        idle, served = times["idle"] + times.get("iowait", 0.0), times.get("irq", 0.0) + times.get("softirq", 0.0)
        shares = {"cpu_percent": round(max(0.0, 100 - idle), 1), "interrupts_percent": round(served, 1)}
        used = {**shares, "memory_bytes": memory.total - memory.available}
        return {**used, **rates, **({"cpu_throttled_percent": throttled(seconds)} if throttled else {})}

    return sample


def own_sampler(own: OwnProcesses) -> Sample | None:
    """Return a sampler of the CPU time of the run's processes on this node, in percent of the machine."""
    cores = os.cpu_count()
    began = own.cpu_seconds()
    if began is None or not cores:
        return None
    state = {"time": time.monotonic(), "used": began}

    def sample() -> dict[str, float]:
        now, used = time.monotonic(), own.cpu_seconds()
        if used is None:
            return {}
        share = max(0.0, used - state["used"]) / (now - state["time"] or SECONDS) / cores
        state.update(time=now, used=used)
        return {"own_cpu_percent": round(100 * share, 1)}

    return sample


def _moved(psutil: Any) -> dict[str, int]:
    """Return the bytes moved so far by network, swap, and loopback, which connects the machine's own processes."""
    counts = psutil.net_io_counters(pernic=True)
    outside = [count for name, count in counts.items() if not name.startswith(_INSIDE)]
    return {
        "swapped": _swapped(),
        "sent": sum(count.bytes_sent for count in outside),
        "received": sum(count.bytes_recv for count in outside),
        "loopback": sum(count.bytes_sent for name, count in counts.items() if name == "lo"),
    }


def _swapped() -> int:
    try:
        with open("/proc/vmstat", encoding="ascii") as file:  # noqa: PTH123 - each second
            pages = sum(int(line.split()[1]) for line in file if line.startswith(("pswpin ", "pswpout ")))
    except (OSError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def gpu_sampler(number: int, own: OwnProcesses) -> Sample | None:
    """Return a sampler of the first visible GPUs: their load, memory, throttling and other users; None without NVML."""
    if not number:
        return None
    try:
        import pynvml  # type: ignore[import-untyped]  # optional
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handles = visible_gpus(pynvml, os.environ.get("CUDA_VISIBLE_DEVICES"))[:number]
    except pynvml.NVMLError:
        return None

    def sample() -> dict[str, float]:
        seen: dict[str, float] = {}
        for index, handle in enumerate(handles):
            with suppress(pynvml.NVMLError):  # MIG instances do not report their load
                seen[f"gpu{index}_percent"] = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
            with suppress(pynvml.NVMLError):
                seen[f"gpu{index}_memory_bytes"] = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
        return {**seen, **gpus_hindered(pynvml, handles, own)}

    return sample


def visible_gpus(pynvml: Any, chosen: str | None) -> list[Any]:
    """Return NVML's handles in CUDA's order, which lists GPUs by number or by UUID prefix."""
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    if chosen is None:
        return handles
    names = {handle: pynvml.nvmlDeviceGetUUID(handle) for handle in handles}
    found = []
    for word in (word.strip() for word in chosen.split(",")):
        fits = [handle for handle in handles if word and names[handle].startswith(word)]
        if word.isdecimal():
            fits = handles[int(word) : int(word) + 1]
        if not fits:  # CUDA ignores the rest of the list
            break
        found.append(fits[0])
    return found
