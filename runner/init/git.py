"""What git says of a folder. A folder without git, or a machine without it, is as good."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line

_SECONDS = 20
_UNREAD = re.compile(r"^warning: could not open directory '(.{1,4096})': ", re.MULTILINE)
MOST_BYTES = 64_000_000
"""Of a list of files; a longer one is cut."""


@dataclass(frozen=True)
class Repository:
    """The repository that a folder is in; `top` is None if there is none."""

    folder: Path
    top: Path | None

    def files(self) -> tuple[list[str], list[str]] | None:
        """List what is tracked or could be, from the folder, and the folders that git cannot read; None without git."""
        if self.top is None:
            return None
        done = _run(self.folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        if done is None or done.returncode:
            return None
        names = os.fsdecode(done.stdout[:MOST_BYTES]).split("\0")
        closed = _UNREAD.findall(os.fsdecode(done.stderr[:MOST_BYTES]))
        return list(dict.fromkeys(filter(None, names))), [name.rstrip("/") for name in closed]

    def committed(self) -> list[str]:
        """List what git tracks, from the folder."""
        tracked = _git(self.folder, "ls-files", "-z") if self.top is not None else None
        return [one for one in (tracked or "")[:MOST_BYTES].split("\0") if one]

    def ignores(self, path: str) -> bool:
        """Whether a path, from the folder, is left out of commits."""
        return self.top is not None and _git(self.folder, "check-ignore", "-q", "--", path) is not None

    def is_dirty(self) -> bool:
        """Whether anything differs from the last commit; False before the first one."""
        status = ("status", "--porcelain", "--untracked-files=no")
        return (
            self.top is not None and bool(_git(self.folder, "rev-parse", "HEAD")) and bool(_git(self.folder, *status))
        )


def repository(folder: Path) -> Repository:
    """Look for the repository that a folder is in; RequestError if it has no files, or git does not trust it."""
    asked = _run(folder, "rev-parse", "--is-bare-repository", "--is-inside-git-dir")
    if asked and asked.returncode and b"dubious ownership" in asked.stderr:
        place = one_line(os.fsdecode(asked.stderr[:MOST_BYTES].rpartition(b"safe.directory ")[2].strip()))
        msg = (
            f"{one_line(folder)} is in a repository of somebody else: git config --global --add safe.directory {place}"
        )
        raise RequestError(msg)
    where = os.fsdecode(asked.stdout) if asked else ""
    if where and "true" in where.split():
        msg = f"{one_line(folder)} is a bare repository or a folder of git's own: clone it, and run `runner init` there"
        raise RequestError(msg)
    top = _git(folder, "rev-parse", "--show-toplevel")
    return Repository(folder, Path(top.rstrip("\n")) if top else None)


def _git(folder: Path, *words: str) -> str | None:
    """Return what git prints, None if it fails or is not there."""
    done = _run(folder, *words)
    return None if done is None or done.returncode else os.fsdecode(done.stdout)


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes] | None:
    """Run git, in English, and none of the programs that a repository's settings name; None without an answer."""
    command = ["git", "-c", "core.quotepath=off", "-c", "core.fsmonitor=false", *words]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done
