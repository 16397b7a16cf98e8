"""Facts known only inside a process of the run: its device, versions and environment."""

import hashlib
import os
import platform
import resource
import socket
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from trainkit.files import read_file
from trainkit.machine import cpu_model, describe, usable_cores
from trainkit.sources import FAMILIES, LARGEST_BYTES, hash_sources, read_sources

ENVIRONMENT = ("NCCL_", "GLOO_", "OMP_", "CUDA_VISIBLE_DEVICES", "PYTORCH_", "TORCH_", "PET_")
"""Prefixes of the environment variables to report: an allow-list, so that no secret gets out."""


def of_process(device: torch.device, program: str | None) -> dict[str, Any]:
    """Return the facts in `run_start` besides program and arguments; `program` is None outside `experiments/`."""
    return {
        "host": socket.gethostname(),
        **({"program_sha256": program_sha256()} if program is None else {"sources_sha256": sources_sha256(program)}),
        "pid": os.getpid(),
        "device": str(device),
        "device_name": device_name(device),
        "cores": usable_cores(),
        "machine_cores": os.cpu_count(),
        **describe(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": nccl_version(),
        "threads": torch.get_num_threads(),
        "env": {name: value for name, value in sorted(os.environ.items()) if name.startswith(ENVIRONMENT)},
    }


def sources_sha256(program: str) -> str:
    """Hash the code that this process runs, as the runner does for a checkout; an image may hold different code."""
    return hash_sources(read_sources(project_root(), program))


def program_sha256() -> str | None:
    """Hash the main file; None for an interactive session or a deleted file.

    For scripts outside `experiments/` only the runner, which reads their imports, can compute `sources_sha256`.
    """
    try:
        started = read_file(Path(sys.modules["__main__"].__file__ or "").resolve(), LARGEST_BYTES)
    except (AttributeError, KeyError, OSError, ValueError):
        return None
    return hashlib.sha256(started).hexdigest()


def project_root() -> Path:
    """Return the parent of the imported `experiments` package, or the current folder."""
    for folder in getattr(sys.modules.get(FAMILIES), "__path__", ()):
        return Path(folder).parent
    return Path.cwd()


def device_name(device: torch.device) -> str | None:
    """Return the model of the GPU or CPU; None if there is no such GPU."""
    if device.type == "cuda":
        seen = torch.cuda.device_count()
        return torch.cuda.get_device_name(device) if (device.index or 0) < seen else None
    return cpu_model()


def nccl_version() -> str | None:
    """Return the version of torch's NCCL; None without NCCL."""
    if not (torch.version.cuda and dist.is_available() and dist.is_nccl_available()):
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))


def peak_memory(device: torch.device) -> dict[str, int]:
    """Return the peak memory of this process so far, and of its GPU if it uses one, in bytes."""
    peaks = {"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if device.type == "cuda":
        peaks["device_peak_bytes"] = torch.cuda.max_memory_allocated(device)
    return peaks
