"""What only the inside of a run knows: the process, its device, its versions, its environment."""

import hashlib
import os
import platform
import resource
import socket
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

ENVIRONMENT = ("NCCL_", "GLOO_", "OMP_", "CUDA_VISIBLE_DEVICES", "PYTORCH_", "TORCH_", "PET_")
"""Beginnings of the variables that are told. A list of what may be told lets no secret out."""


def of_process(device: torch.device) -> dict[str, Any]:
    """Return the facts that `run_start` carries besides the program and its arguments."""
    return {
        "host": socket.gethostname(),
        "sources_sha256": sources_sha256(),
        "pid": os.getpid(),
        "device": str(device),
        "device_name": device_name(device),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": nccl_version(),
        "threads": torch.get_num_threads(),
        "env": {name: value for name, value in sorted(os.environ.items()) if name.startswith(ENVIRONMENT)},
    }


def sources_sha256() -> str:
    """Hash every program of the kit with its path, as the runner does: an image may hold others than a checkout."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted((root / "experiments").rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode("utf-8", "surrogateescape"))
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def device_name(device: torch.device) -> str | None:
    """Return the model of the GPU or CPU, or None where it cannot be read."""
    if device.type == "cuda":
        seen = torch.cuda.device_count()
        return torch.cuda.get_device_name(device) if (device.index or 0) < seen else None
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def nccl_version() -> str | None:
    """Return the version of the NCCL that this torch was built with, if any."""
    if not (torch.version.cuda and dist.is_available() and dist.is_nccl_available()):
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))


def peak_memory(device: torch.device) -> dict[str, int]:
    """Return the most memory that this process held so far, in bytes."""
    peaks = {"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if device.type == "cuda":
        peaks["device_peak_bytes"] = torch.cuda.max_memory_allocated(device)
    return peaks
