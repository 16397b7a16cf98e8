"""Print facts about this machine or container as one line of JSON.

This file runs as `python -c <its text>` in any image with Python 3.8 or newer, for `_SECONDS` at most. It imports
nothing that could be missing or slow. It reads torch's version from torch's files, and asks the GPU driver's library.
"""

from __future__ import annotations  # Python 3.8 does not know `list[str]`

import contextlib
import ctypes
import importlib.util
import json
import os
import platform
import re
import resource
import shutil
import signal
import socket
from importlib import metadata
from typing import Any

_SECONDS = 9
MARK = "KIT-DOCTOR "


def gather(folder: str = ".") -> dict[str, Any]:
    """Return the facts, ready for JSON. Missing facts are None or empty."""
    shm_bytes, shm_free_bytes, _ = _disk("/dev/shm")  # noqa: S108 - only its size is read
    _, folder_bytes, folder_files = _disk(folder)
    return {
        **versions(),
        **network(),
        **_driver(),
        "shm_bytes": shm_bytes,
        "shm_free_bytes": shm_free_bytes,
        "memory_bytes": _memory(),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "folder": folder,
        "folder_bytes": folder_bytes,
        "folder_writable": os.access(_nearest(folder), os.W_OK),
        "folder_files": folder_files,
    }


def network() -> dict[str, Any]:
    """Return this host's name, addresses, interfaces and network variables."""
    return {
        "host": socket.gethostname(),
        "own_addresses": _own_addresses(),
        "interfaces": sorted(name for _, name in socket.if_nameindex() if name != "lo"),
        "variables": {name: os.environ.get(name, "") for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")},
    }


def _own_addresses() -> list[str]:
    try:
        return sorted({str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)})
    except (OSError, UnicodeError):
        return []


def versions() -> dict[str, Any]:
    """Return the versions of Python, torch, CUDA and NCCL without importing torch."""
    facts: dict[str, Any] = {"python": platform.python_version(), "torchrun": shutil.which("torchrun")}
    facts.update({"torch": None, "cuda": None, "nccl": None})
    try:
        spec = importlib.util.find_spec("torch")
        places = list(spec.submodule_search_locations or []) if spec else []
        text = _read(os.path.join(places[0], "version.py"))  # noqa: PTH118
        for name, key in (("torch", "__version__"), ("cuda", "cuda")):
            match = re.search("(?m)^" + key + r"\b[^=\n]*= *['\"]([^'\"]+)", text)
            facts[name] = match.group(1) if match else None
    except (ImportError, IndexError, OSError, ValueError, AttributeError):
        pass
    for package in ("nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            facts["nccl"] = metadata.version(package)
    return facts


def _driver() -> dict[str, Any]:
    facts: dict[str, Any] = {"driver": None, "driver_cuda": None, "gpus": 0, "driver_error": None}
    try:
        match = re.search(r"\b(\d{3,4}(?:\.\d+)+)\b", _read("/proc/driver/nvidia/version"))
        facts["driver"] = match.group(1) if match else None
    except OSError:
        pass
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return facts
    number = ctypes.c_int(0)
    if library.cuDriverGetVersion(ctypes.byref(number)) == 0:
        facts["driver_cuda"] = f"{number.value // 1000}.{number.value % 1000 // 10}"
    code = library.cuInit(0)
    if code:
        facts["driver_error"] = code
    elif library.cuDeviceGetCount(ctypes.byref(number)) == 0:
        facts["gpus"] = number.value
    return facts


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read(10_000)


def _nearest(folder: str) -> str:
    path = os.path.abspath(folder)  # noqa: PTH100
    while not os.path.exists(path) and path != os.path.dirname(path):  # noqa: PTH110, PTH120
        path = os.path.dirname(path)  # noqa: PTH120
    return path


def _disk(folder: str) -> tuple[int | None, int | None, int | None]:
    try:
        disk = os.statvfs(_nearest(folder))
    except OSError:
        return None, None, None
    free_files = disk.f_favail if disk.f_files else None  # 0 means that the file system has no inode table
    return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize, free_files


def _memory() -> int | None:
    left: list[int] = []
    try:
        match = re.search(r"MemAvailable: +(\d+)", _read("/proc/meminfo"))
        left += [int(match.group(1)) * 1024] if match else []
        most, used = (_read(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current"))
        left += [int(most) - int(used)] if most.isdigit() else []
    except (OSError, ValueError):
        pass
    return min(left) if left else None


if __name__ == "__main__":
    signal.alarm(_SECONDS)
    os.write(1, f"\n{MARK}{json.dumps(gather())}\n".encode())
