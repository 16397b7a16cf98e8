"""What only a process of the run knows: itself, its device, its versions, its environment."""

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
"""Prefixes of the environment variables that are reported. An allow-list lets no secret out."""


def of_process(device: torch.device, program: str | None) -> dict[str, Any]:
    """Return the facts that `run_start` carries besides the program and its arguments.

    Args:
        device: what the process trains on.
        program: its name below `experiments/`, for example `mnist.ddp`; None for one that is in no family.
    """
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
    """Hash the code that this process runs, as the runner does: an image may hold another than a checkout."""
    return hash_sources(read_sources(project_root(), program))


def program_sha256() -> str | None:
    """Hash the file that was started; None if it was typed at a prompt, or is gone.

    What else a program of no family consists of only the runner knows, which reads the imports: so a process reports
    this and no `sources_sha256`.
    """
    try:
        started = read_file(Path(sys.modules["__main__"].__file__ or "").resolve(), LARGEST_BYTES)
    except (AttributeError, KeyError, OSError, ValueError):
        return None
    return hashlib.sha256(started).hexdigest()


def project_root() -> Path:
    """Return the folder whose families this process has imported; for a program from elsewhere, the current one."""
    for folder in getattr(sys.modules.get(FAMILIES), "__path__", ()):
        return Path(folder).parent
    return Path.cwd()


def device_name(device: torch.device) -> str | None:
    """Return the model of the GPU or CPU; None for a GPU that is not there."""
    if device.type == "cuda":
        seen = torch.cuda.device_count()
        return torch.cuda.get_device_name(device) if (device.index or 0) < seen else None
    return cpu_model()


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
