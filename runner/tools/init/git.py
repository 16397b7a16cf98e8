"""What git says of a folder. A folder without git, or a machine without it, is as good."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from runner.core import git
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
    found: git.Repository | None

    @property
    def top(self) -> Path | None:
        """The folder of the repository's files."""
        return self.found.top if self.found else None

    def files(self) -> tuple[list[str], list[str]] | None:
        """List what is tracked or could be, from the folder, and the folders that git cannot read; None without git."""
        done = self._run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        if done is None or done.returncode:
            return None
        names = os.fsdecode(done.stdout[:MOST_BYTES]).split("\0")
        closed = _UNREAD.findall(os.fsdecode(done.stderr[:MOST_BYTES]))
        return list(dict.fromkeys(filter(None, names))), [name.rstrip("/") for name in closed]

    def ignores(self, path: str) -> bool:
        """Return whether a path, from the folder, is left out of commits."""
        done = self._run("check-ignore", "-q", "--", path)
        return done is not None and done.returncode == 0

    def _run(self, *words: str) -> subprocess.CompletedProcess[bytes] | None:
        """Run git in the folder; None without an answer."""
        if self.found is None:
            return None
        try:
            return self.found.run(*words, seconds=_SECONDS)
        except git.GitError:
            return None


def repository(folder: Path) -> Repository:
    """Look for the repository that a folder is in; RequestError if it has no files, or git does not trust it."""
    try:
        return Repository(folder, git.find(folder))
    except git.GitError as error:
        raise RequestError(f"{one_line(folder)}: {error}") from None
