"""Describe the code, the runner and the host of a run. Programs report their own facts in `run_start`."""

import hashlib
import os
import platform
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import psutil

import runner
from runner.core import git
from runner.core.text import one_line
from runner.records import manifest
from trainkit import machine
from trainkit.sources import hash_sources

READER = "reader_sha256"
LOCKS = ("requirements/runtime.lock", "requirements.lock", "requirements/current.lock")
"""Possible places of a project's lock file. The first existing file counts."""
LARGEST_DIFF = 1_000_000
_TOOL_SECONDS = 10
_STATUS = ("status", "--porcelain=v2", "-z", "--untracked-files=normal", "--no-renames", "--ignore-submodules=none")
_DIFF = (
    *("diff", "--binary", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/", "--no-ext-diff", "--no-textconv"),
    *("--no-color", "--no-relative", "--submodule=short", "--ignore-submodules=dirty", "HEAD", "--", ":/"),
)
"""Arguments for a diff that `git apply` accepts, whatever the user's git settings."""


def describe_code(root: Path, sources: dict[str, bytes]) -> tuple[dict[str, Any], str]:
    """Return a description of a run's code, and the diff of the uncommitted changes.

    `sources_sha256` is the hash of `sources`, the program's Python files. Runs with equal hashes ran the same program.
    """
    installed = Path(sys.prefix, ".kit-lock")  # requirements/setup.py writes the name of the installed lock file there
    names = [installed.read_text("utf-8"), *LOCKS] if installed.is_file() else LOCKS
    lock = next((root / name for name in names if (root / name).is_file()), None)
    repository, diff = describe_repository(root)
    hashes = {"sources_sha256": hash_sources(sources), "lock_sha256": manifest.hash_file(lock) if lock else None}
    return hashes | repository, diff.decode("utf-8", "surrogateescape")


def describe_repository(root: Path) -> tuple[dict[str, Any], bytes]:
    """Return facts about the git repository of a project, and the diff of the uncommitted changes.

    If there is no repository or commit, there are no facts. Some facts are optional: `prefix` is the project's folder
    in the repository, `submodules` lists submodules whose uncommitted changes the diff lacks, and `git` is an error
    that left facts unknown. The diff is cut at LARGEST_DIFF.
    """
    facts: dict[str, Any] = {}
    diff = b""
    try:
        repository = git.find(root)
        if repository is None or repository.commit is None:
            return facts, diff
        facts |= {"commit": repository.commit, "dirty": None, "diff_sha256": None}
        if repository.prefix:
            facts["prefix"] = os.fsencode(repository.prefix).decode("utf-8", "replace")
        lines = repository.ask(*_STATUS).split(b"\0")[:-1]
        facts["dirty"] = bool(lines)
        changed = (line.split(b" ", 8) for line in lines if line.startswith(b"1 "))
        # Submodules with changed or untracked files (porcelain version 2).
        inner = [fields[8] for fields in changed if fields[2].startswith(b"S") and not fields[2].endswith(b"..")]
        facts |= {"submodules": [one_line(os.fsdecode(name), 200) for name in inner]} if inner else {}
        if lines and (diff := repository.ask(*_DIFF)):
            facts["diff_sha256"] = hashlib.sha256(diff).hexdigest()
    except git.GitError as error:
        facts["git"] = str(error)
    return facts, diff if len(diff) <= LARGEST_DIFF else diff[:LARGEST_DIFF] + b"\n... cut\n"


def describe_runner() -> dict[str, Any]:
    """Describe this process, so that another process can find out whether the runner still lives."""
    process = psutil.Process()
    return {
        "version": runner.__version__,
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "pid": process.pid,
        "pid_started": process.create_time(),
        "manifest": manifest.NAME,  # a run without this key never had a manifest
        READER: hash_reader(),
    }


@cache
def hash_reader() -> str:
    """Return a hash of the code that parses raw files. The hash shows whether another version parsed a record."""
    kit = Path(runner.__file__).parent
    rooms = ("core", "logs", "records")
    paths = [path for room in rooms for path in (kit / room).rglob("*") if path.suffix in (".py", ".yaml")]
    return hash_sources({path.relative_to(kit).as_posix(): path.read_bytes() for path in paths})


def is_alive(description: dict[str, Any]) -> bool | None:
    """Return whether a described runner still lives; None if the runner was started on another machine."""
    if description.get("host") != socket.gethostname():
        return None
    try:
        process = psutil.Process(description["pid"])
        # An ended process stays a zombie if its parent never waits.
        return abs(process.create_time() - description["pid_started"]) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def describe_host() -> dict[str, Any]:
    """Describe the machine of the runner."""
    return {
        "name": socket.gethostname(),
        **machine.describe(),
        "cores": max(1, int(machine.usable_cores())),
        "os": platform.platform(),
        "gpus": gpus(),
    }


def gpus() -> list[str]:
    """Return the names of the GPUs that `CUDA_VISIBLE_DEVICES` lists, in the same order.

    If the variable is not set, return the names of all NVIDIA GPUs.
    """
    names = _all_gpus()
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is None:
        return names
    by_number = {str(number): name for number, name in enumerate(names)}
    return [by_number.get(word, word) for word in map(str.strip, visible.split(",")) if word not in ("", "-1")]


@cache
def _all_gpus() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []
