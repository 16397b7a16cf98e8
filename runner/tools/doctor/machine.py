"""Versions, memory, `/dev/shm`, disks and limits of a machine or a container: facts of `inside.gather` -> findings.

`where` is the place that the facts are of.
"""

from typing import Any

from runner.tools.doctor.finding import Finding, ok, warning, wrong

_MIB, _GIB = 2**20, 2**30
SHM_LEAST = 128 * _MIB
"""With Docker's default of 64 MiB, NCCL (32 MiB a process) and data loaders end with a bus error."""
SHM_GOOD = 512 * _MIB
MEMORY_LEAST, MEMORY_GOOD = 256 * _MIB, _GIB
DISK_LEAST, DISK_GOOD = 16 * _MIB, _GIB
IMAGE_LEAST, IMAGE_GOOD = 256 * _MIB, 2 * _GIB
FILES_LEAST, FILES_GOOD = 256, 1024
"""Open files that Linux allows by default; a worker of a data loader takes some dozens."""
TORCH = "pip install 'distributed-experiment-kit[torch]'"


def check_machine(facts: dict[str, Any], where: str, *, shm_mend: str) -> list[Finding]:
    """Check what programs need of a machine or container; `shm_mend` says how `/dev/shm` is made larger there."""
    return [*_shm(facts, where, shm_mend), *_memory(facts, where), *_files(facts, where)]


def check_folder(facts: dict[str, Any], where: str) -> list[Finding]:
    """Check the disk of the results."""
    free, folder = facts.get("folder_bytes"), facts.get("folder")
    elsewhere = "remove what is not needed there, or choose another disk with --results FOLDER"
    if free is None:
        return [wrong("disk", where, f"{folder} cannot be read", "choose another folder with --results FOLDER")]
    if not facts.get("folder_writable"):
        return [wrong("disk", where, f"{folder} cannot be written", f"chown $(id -u) {folder}, or --results FOLDER")]
    if facts.get("folder_files") == 0:
        return [wrong("disk", where, f"the disk of {folder} has no room for another file (df -i)", elsewhere)]
    return [_amount("disk", where, f"free for {folder}", free, (DISK_LEAST, DISK_GOOD), elsewhere)]


def check_image_disk(folder: str, free: int | None, where: str) -> list[Finding]:
    """Check the disk of the engine's images and containers."""
    if free is None:
        return []
    return [_amount("engine-disk", where, f"free for {folder}", free, (IMAGE_LEAST, IMAGE_GOOD), "docker system prune")]


def _shm(facts: dict[str, Any], where: str, mend: str) -> list[Finding]:
    size, free = facts.get("shm_bytes"), facts.get("shm_free_bytes")
    if size is None or free is None:
        return []
    if size >= SHM_GOOD > free:
        seen = f"only {amount(free)} of {amount(size)} in /dev/shm are free"
        make = wrong if free < SHM_LEAST else warning
        return [make("shared-memory", where, seen, "ls -l /dev/shm shows what fills it; remove what ended runs left")]
    return [_amount("shared-memory", where, "in /dev/shm", size, (SHM_LEAST, SHM_GOOD), mend)]


def _memory(facts: dict[str, Any], where: str) -> list[Finding]:
    free = facts.get("memory_bytes")
    if free is None:
        return []
    mend = "end other programs (ps aux --sort=-rss | head), or allow the container more: --with memory=8gb"
    return [_amount("memory", where, "of memory available", free, (MEMORY_LEAST, MEMORY_GOOD), mend)]


def _files(facts: dict[str, Any], where: str) -> list[Finding]:
    limit = facts.get("open_files")
    if limit is None:
        return []
    seen = "unlimited" if limit < 0 or limit > 2**62 else f"{limit:,}"
    if 0 <= limit < FILES_GOOD:
        make = wrong if limit < FILES_LEAST else warning
        return [make("open-files", where, f"a process may open only {seen} files", "ulimit -n 65536")]
    return [ok("open-files", where, f"a process may open {seen} files")]


def _amount(check: str, where: str, what: str, size: int, limits: tuple[int, int], mend: str) -> Finding:
    least, good = limits
    if size >= good:
        return ok(check, where, f"{amount(size)} {what}")
    make = wrong if size < least else warning
    return make(check, where, f"only {amount(size)} {what}", mend)


def amount(size: int) -> str:
    """Write a size in bytes for a person."""
    for unit, factor in (("TiB", 2**40), ("GiB", _GIB), ("MiB", _MIB)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}" if size < 10 * factor else f"{size / factor:,.0f} {unit}"
    return f"{size / 2**10:.0f} KiB"


def check_versions(facts: dict[str, Any], where: str, *, image: str = "") -> list[Finding]:
    """Look for Python, torch and torchrun where programs run; `image` is the container's, if it is one."""
    mend = f"use an image with torch: --with image=..., or build {image} again" if image else TORCH
    torch, python = facts.get("torch"), f"Python {facts.get('python')}"
    if not torch:
        return [ok("python", where, python), wrong("torch", where, "torch is not installed", mend)]
    parts = [f"torch {torch}"] + [f"{name.upper()} {facts[name]}" for name in ("cuda", "nccl") if facts.get(name)]
    found = [ok("python", where, python), ok("torch", where, ", ".join(parts))]
    if image and not facts.get("torchrun"):
        found.append(wrong("torchrun", where, "there is no torchrun on the PATH", mend))
    return found


def check_difference(here: dict[str, Any], there: dict[str, Any], where: str) -> list[Finding]:
    """Compare the versions of this machine with those in a container."""
    found: list[Finding] = []
    for name in ("torch", "nccl", "python"):
        mine, other = here.get(name), there.get(name)
        if mine and other and _version(name, str(mine)) != _version(name, str(other)):
            mend = f"install the same {name} on both, or compare only runs of one image"
            found.append(warning("versions", where, f"{name} {other} there, {name} {mine} on this machine", mend))
    return found


def _version(name: str, text: str) -> str:
    """Return what has to be equal: of Python the minor version, of torch all but its build (`+cu121`, `+cpu`)."""
    return ".".join(text.split(".")[:2]) if name == "python" else text.partition("+")[0]
