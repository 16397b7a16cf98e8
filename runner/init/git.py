"""What git says of a folder. A folder without git, or a machine without it, is as good."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line

_SECONDS = 20
MOST_BYTES = 64_000_000
"""Of a list of files; a longer one is cut."""


@dataclass(frozen=True)
class Repository:
    """The repository that a folder is in; `top` is None if there is none."""

    folder: Path
    top: Path | None

    def files(self) -> list[str] | None:
        """List what is tracked or could be, from the folder; None without git."""
        if self.top is None:
            return None
        listed = _git(self.folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return None if listed is None else list(dict.fromkeys(filter(None, listed[:MOST_BYTES].split("\0"))))

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
    """Look for the repository that a folder is in; RequestError for one that has no files."""
    where = _git(folder, "rev-parse", "--is-bare-repository", "--is-inside-git-dir")
    if where and "true" in where.split():
        msg = f"{one_line(folder)} is a bare repository or a folder of git's own: clone it, and run `runner init` there"
        raise RequestError(msg)
    top = _git(folder, "rev-parse", "--show-toplevel")
    return Repository(folder, Path(top.rstrip("\n")) if top else None)


def _git(folder: Path, *words: str) -> str | None:
    """Return what git prints, None if it fails or is not there; a repository's own hooks are not run."""
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
    return os.fsdecode(done.stdout) if done.returncode == 0 else None
