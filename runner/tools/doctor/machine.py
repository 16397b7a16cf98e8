"""Checks of versions, GPUs, memory, `/dev/shm`, disks and limits, from the facts of `inside.gather`.

`where` is the machine or container that the facts describe.
"""

from typing import Any

from runner.tools.doctor.findings import Finding, ok, warning, wrong

_MIB, _GIB = 2**20, 2**30
SHM = (128 * _MIB, 512 * _MIB)
"""Limits of free bytes in `/dev/shm`. With Docker's 64 MiB, NCCL (32 MiB a process) and loaders die of bus errors."""
MEMORY, DISK, IMAGES = (256 * _MIB, _GIB), (16 * _MIB, _GIB), (256 * _MIB, 2 * _GIB)
"""Limits of free bytes: less than the first is wrong, less than the second a warning."""
FILES_LEAST, FILES_GOOD = 256, 1024
"""Limits of open files: Linux allows 1024 by default, and a data loader worker opens some dozens."""
TORCH = "pip install 'distributed-experiment-kit[torch]'"
COMPATIBLE = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The oldest driver for a major version of CUDA.

Source: NVIDIA, CUDA Toolkit Release Notes, "CUDA Driver" (for minor version compatibility), Linux x86_64.
"""
_TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"


def check_machine(facts: dict[str, Any], where: str, *, shm_mend: str) -> list[Finding]:
    """Check `/dev/shm`, memory and open files. `shm_mend` says how to enlarge `/dev/shm`."""
    findings = []
    if (free := facts["shm_free_bytes"]) is not None:
        mend = shm_mend if facts["shm_bytes"] < SHM[1] else "ls -l /dev/shm; remove leftovers of ended runs"
        findings.append(_amount("shared-memory", where, "free in /dev/shm", free, SHM, mend))
    if (free := facts["memory_bytes"]) is not None:
        mend = "end other programs (ps aux --sort=-rss | head), or allow the container more: --with memory=8gb"
        findings.append(_amount("memory", where, "of memory available", free, MEMORY, mend))
    limit = facts["open_files"]
    seen = "unlimited" if limit < 0 or limit > 2**62 else f"{limit:,}"
    if 0 <= limit < FILES_GOOD:
        make = wrong if limit < FILES_LEAST else warning
        return [*findings, make("open-files", where, f"a process may open only {seen} files", "ulimit -n 65536")]
    return [*findings, ok("open-files", where, f"a process may open {seen} files")]


def check_folder(facts: dict[str, Any], where: str) -> Finding:
    """Check that the results folder is writable and has space."""
    free, folder = facts["folder_bytes"], facts["folder"]
    elsewhere = "free some space there, or choose another disk with --results FOLDER"
    if free is None:
        return wrong("disk", where, f"{folder} cannot be read", "choose another folder with --results FOLDER")
    if not facts["folder_writable"]:
        return wrong("disk", where, f"{folder} cannot be written", f"chown $(id -u) {folder}, or --results FOLDER")
    if facts["folder_files"] == 0:
        return wrong("disk", where, f"the disk of {folder} has no room for another file (df -i)", elsewhere)
    return _amount("disk", where, f"free for {folder}", free, DISK, elsewhere)


def check_image_disk(folder: str, free: int, where: str) -> Finding:
    """Check the free space for the engine's images and containers."""
    return _amount("engine-disk", where, f"free for {folder}", free, IMAGES, "docker system prune")


def _amount(check: str, where: str, what: str, size: int, limits: tuple[int, int], mend: str) -> Finding:
    least, good = limits
    if size >= good:
        return ok(check, where, f"{amount(size)} {what}")
    return (wrong if size < least else warning)(check, where, f"only {amount(size)} {what}", mend)


def amount(size: int) -> str:
    """Return a size in bytes as text, for example `1.5 GiB`."""
    for unit, factor in (("TiB", 2**40), ("GiB", _GIB), ("MiB", _MIB)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}" if size < 10 * factor else f"{size / factor:,.0f} {unit}"
    return f"{size / 2**10:.0f} KiB"


def check_versions(facts: dict[str, Any], where: str, *, image: str = "") -> list[Finding]:
    """Check Python, torch and, in a container of `image`, torchrun."""
    mend = f"use an image with torch: --with image=..., or build {image} again" if image else TORCH
    findings = [ok("python", where, f"Python {facts['python']}")]
    if not facts["torch"]:
        return [*findings, wrong("torch", where, "torch is not installed", mend)]
    parts = [f"{name} {facts[key]}" for name, key in (("CUDA", "cuda"), ("NCCL", "nccl")) if facts[key]]
    findings.append(ok("torch", where, ", ".join([f"torch {facts['torch']}", *parts])))
    if image and not facts["torchrun"]:
        findings.append(wrong("torchrun", where, "torchrun is not on the PATH", mend))
    return findings


def check_difference(here: dict[str, Any], there: dict[str, Any], where: str) -> list[Finding]:
    """Return a warning for each version that differs between this machine and a container."""
    mend = "install the same on both, or compare only runs of one image"
    return [
        warning("versions", where, f"{name} {there[name]} in the container, {name} {here[name]} on this machine", mend)
        for name in ("torch", "nccl", "python")
        if here[name] and there[name] and _version(name, here[name]) != _version(name, there[name])
    ]


def _version(name: str, text: str) -> str:
    return ".".join(text.split(".")[:2]) if name == "python" else text.partition("+")[0]


def check_gpus(facts: dict[str, Any], where: str, *, device: str, image: str = "") -> list[Finding]:
    """Check the NVIDIA driver and GPUs. If the device is `auto` and both are missing, there is no finding.

    `image` is the container's image.
    """
    driver, count = facts["driver"], facts["gpus"]
    if device == "cpu" or (device == "auto" and not driver and not count):
        return []
    if not driver and not facts["driver_cuda"]:
        mend = f"install the NVIDIA Container Toolkit: {_TOOLKIT}" if image else "install NVIDIA's driver"
        return [wrong("driver", where, "no NVIDIA driver was found", f"{mend}, or use --device cpu")]
    findings = [_check_driver(facts, where)]
    if facts["driver_error"]:
        seen = f"CUDA does not start: cuInit returned {facts['driver_error']}"
        return [*findings, wrong("gpus", where, seen, "see nvidia-smi; restart after a driver update")]
    if not count:
        mend = "nvidia-smi -L; check CUDA_VISIBLE_DEVICES"
        return [*findings, wrong("gpus", where, "the driver shows no GPU", mend)]
    return [*findings, ok("gpus", where, f"{count} GPU{'s' * (count > 1)}")]


def _check_driver(facts: dict[str, Any], where: str) -> Finding:
    cuda, driver = facts["cuda"], facts["driver"]
    seen = f"NVIDIA driver {driver}" if driver else f"a driver for CUDA {facts['driver_cuda']}"
    if not facts["torch"]:
        return ok("driver", where, seen)
    if not cuda:
        mend = "install a build of torch for CUDA: https://pytorch.org/get-started/locally/"
        return wrong("driver", where, f"torch {facts['torch']} was built without CUDA", mend)
    seen, least = f"{seen}; torch was built with CUDA {cuda}", COMPATIBLE.get(_numbers(cuda)[0])
    if driver and least and _numbers(driver) < _numbers(least):
        mend = f"install driver {least} or newer, or a torch for an older CUDA"
        return wrong("driver", where, f"{seen}, which needs {least}", mend)
    return ok("driver", where, seen)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in version.split(".") if word.isdigit()) or (0,)
