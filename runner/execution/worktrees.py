"""Commits as folders: each in a git worktree of its own, in the folder for temporary files, removed in the end."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner.core.errors import Interrupted, RequestError
from runner.core.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.execution.signals import Interrupts

_GIT_SECONDS = 600
DATA = "data"
"""The project's folder of prepared data, which no commit holds."""


def commit_of(root: Path, word: str) -> str | None:
    """Return the full hash of the commit that a word names in the project's repository; None if it names none."""
    # A word that begins with a dash would be an option of older versions of git.
    if word.startswith("-") or not word.isprintable():
        return None
    done = _git(root, "rev-parse", "--verify", "--quiet", f"{word}^{{commit}}")
    return done.stdout.strip() if done and done.returncode == 0 else None


def short_name(root: Path, commit: str) -> str:
    """Return a commit's hash as short as the repository allows."""
    done = _git(root, "rev-parse", "--short", commit)
    return done.stdout.strip() if done and done.returncode == 0 else commit[:12]


class Worktrees:
    """Makes worktrees of one repository.

    Args:
        root: the project's folder, which may lie below the repository's.
        interrupts: the signals that end the command.
    """

    def __init__(self, root: Path, folder: Path, interrupts: Interrupts) -> None:
        self._root, self._folder, self._interrupts = root, folder, interrupts
        self.made: list[Path] = []

    def add(self, name: str, commit: str) -> Path:
        """Check a commit out and return the project's folder in it; RequestError if that fails."""
        path = self._folder / name
        self.made.append(path)
        try:
            with self._interrupts.raising():
                done = _git(self._root, "worktree", "add", "--detach", "--quiet", str(path), commit)
        except KeyboardInterrupt:
            raise Interrupted from None
        prefix = _git(self._root, "rev-parse", "--show-prefix")
        if done is None or done.returncode or prefix is None:
            why = one_line(done.stderr if done else "git took too long, or is not installed")
            msg = f"{commit}: cannot be checked out to {path}: {why}"
            raise RequestError(msg)
        project = path / prefix.stdout.strip()
        self._show_data(project)
        return project

    def _show_data(self, project: Path) -> None:
        """Link the data that was prepared in the checkout, so that it need not be prepared again."""
        with suppress(OSError):
            for entry in (self._root / DATA).iterdir():
                if not (project / DATA / entry.name).exists():
                    (project / DATA).mkdir(exist_ok=True)
                    (project / DATA / entry.name).symlink_to(entry.resolve())


@contextmanager
def worktrees(root: Path, interrupts: Interrupts) -> Iterator[Worktrees]:
    """Make worktrees in a block; in the end, however it comes, they are removed."""
    with tempfile.TemporaryDirectory(prefix="runner-compare-", ignore_cleanup_errors=True) as folder:
        made = Worktrees(root, Path(folder), interrupts)
        try:
            yield made
        finally:
            for path in made.made:  # twice forced: also one whose making was interrupted
                _git(root, "worktree", "remove", "--force", "--force", str(path))


def _git(root: Path, *words: str) -> subprocess.CompletedProcess[str] | None:
    """Run git in a session of its own, so that Ctrl-C does not stop it half-way, and without the project's hooks."""
    command = ["git", "-c", "core.hooksPath=/dev/null", *words]
    try:
        return subprocess.run(
            command,
            cwd=root,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=_GIT_SECONDS,
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
