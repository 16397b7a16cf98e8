"""What a node's processors, memory, network and GPUs do while a run lasts: a `load` event a second.

The first process of every node looks, in a thread of its own: psutil for the machine (all of it, also from inside a
container), NVML by nvidia-ml-py for the GPUs. Where one of the two is not installed, its fields are missing.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from experiments.events import EventLog

SECONDS = 1.0
SHORTEST = 0.1
"""A last look sooner than this after the one before would tell of nothing."""
_INSIDE = ("lo", "veth", "docker", "br-", "cni", "virbr")
"""Beginnings of the names of interfaces whose traffic stays on the machine, or passes another interface too."""

Look = Callable[[], dict[str, float]]


class Load:
    """A block that is watched: every second, and once more at its end, `log` says what the node does.

    Args:
        log: takes the events.
        gpus: how many GPUs of the node the run uses, from the first one that it may see.
    """

    def __init__(self, log: EventLog, gpus: int = 0) -> None:
        self._log = log
        self._number_of_gpus = gpus
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="load", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        """Look at even distances, whatever a look takes."""
        # Made here: psutil counts for each thread what is new since its last look.
        looks = [look for look in (_machine(), _gpus(self._number_of_gpus)) if look]
        began = last = time.monotonic()
        ended = not looks
        while not ended:
            ended = self._end.wait(max(0.0, SECONDS - (time.monotonic() - began) % SECONDS))
            if not ended or time.monotonic() - last >= SHORTEST:
                last = time.monotonic()
                self._log.point("load", **{name: value for look in looks for name, value in look().items()})


def _machine() -> Look | None:
    """Return a look at processors, memory and network; rates are those since the look before."""
    try:
        import psutil  # noqa: PLC0415 - optional
    except ImportError:
        return None
    state: dict[str, Any] = {"time": time.monotonic(), "moved": _moved(psutil)}
    psutil.cpu_percent()  # counts from here

    def look() -> dict[str, float]:
        now, moved = time.monotonic(), _moved(psutil)
        seconds = now - state["time"] or SECONDS
        rates = {f"{name}_bytes_per_second": round((moved[name] - state["moved"][name]) / seconds) for name in moved}
        state.update(time=now, moved=moved)
        memory = psutil.virtual_memory()
        return {"cpu_percent": psutil.cpu_percent(), "memory_bytes": memory.total - memory.available, **rates}

    return look


def _moved(psutil: Any) -> dict[str, int]:
    """Count what the network has moved so far, in bytes; what processes of one machine tell each other is loopback."""
    counts = psutil.net_io_counters(pernic=True)
    outside = [count for name, count in counts.items() if not name.startswith(_INSIDE)]
    return {
        "sent": sum(count.bytes_sent for count in outside),
        "received": sum(count.bytes_recv for count in outside),
        "loopback": sum(count.bytes_sent for name, count in counts.items() if name == "lo"),
    }


def _gpus(number: int) -> Look | None:
    """Return a look at the first GPUs that this process may see: how busy, and how full, whoever uses them."""
    if not number:
        return None
    try:
        import pynvml  # type: ignore[import-untyped] # noqa: PLC0415 - optional
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handles = _visible(pynvml, os.environ.get("CUDA_VISIBLE_DEVICES"))[:number]
    except pynvml.NVMLError:
        return None

    def look() -> dict[str, float]:
        seen: dict[str, float] = {}
        for index, handle in enumerate(handles):
            with suppress(pynvml.NVMLError):  # not every GPU tells: one that is cut into MIG instances does not
                seen[f"gpu{index}_percent"] = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
            with suppress(pynvml.NVMLError):
                seen[f"gpu{index}_memory_bytes"] = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
        return seen

    return look


def _visible(pynvml: Any, chosen: str | None) -> list[Any]:
    """Return NVML's handles in the order in which CUDA counts them: by number, or by the beginning of a UUID."""
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    if chosen is None:
        return handles
    names = {handle: pynvml.nvmlDeviceGetUUID(handle) for handle in handles}
    found = []
    for word in (word.strip() for word in chosen.split(",")):
        fits = [handle for handle in handles if word and names[handle].startswith(word)]
        if word.isdecimal():
            fits = handles[int(word) : int(word) + 1]
        if not fits:  # CUDA sees none from here on
            break
        found.append(fits[0])
    return found
