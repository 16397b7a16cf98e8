"""Run git in the user's repository, without its hooks and file monitor."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.temporary import temporary_folder
from runner.core.text import one_line

SECONDS = 10
CHECKOUT_SECONDS = 600
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_ENGLISH = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
_OTHER_REPOSITORY = re.compile("GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|COMMON_DIR|PREFIX|NAMESPACE|DIFF_OPTS)")
"""Environment variables with which a hook or a shell would make git use another repository than the folder's."""
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class GitError(RequestError):
    """Git failed, timed out, or lacks the requested files."""


@dataclass(frozen=True)
class Repository:
    """A repository with a working tree, and a folder in that tree. `commit` is None if there is no commit yet."""

    folder: Path
    top: Path
    prefix: str
    commit: str | None
    _own: Path

    def run(
        self, *words: str, given: bytes = b"", seconds: float = SECONDS, env: Mapping[str, str] = _ENGLISH
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git in the folder and return its result, whatever the exit code. Raises GitError on a timeout."""
        return _run(self.folder, *words, given=given, seconds=seconds, env=env)

    def ask(self, *words: str, seconds: float = SECONDS, env: Mapping[str, str] = _ENGLISH) -> bytes:
        """Run git in the folder and return its stdout. Raises GitError if it fails."""
        done = self.run(*words, seconds=seconds, env=env)
        if done.returncode:
            raise _refusal(done)
        return done.stdout

    def check_out(self, commit: str, folder: Path) -> None:
        """Write a commit's files into an empty folder, without changing the repository's own index and files."""
        words = ("-c", "core.sparseCheckout=false", "read-tree", "--reset", "-u", commit)
        with temporary_folder("git") as scratch:
            env = {**self._files_in(folder), "GIT_INDEX_FILE": str(scratch / "index")}
            self.ask("-C", str(folder), *words, seconds=CHECKOUT_SECONDS, env=env)

    def apply(self, diff: bytes, folder: Path) -> str | None:
        """Apply a diff to the files of a folder. Return git's reason if the diff does not apply, else None."""
        words = ("-C", str(folder), "apply", "--whitespace=nowarn", "-")
        done = self.run(*words, given=diff, seconds=CHECKOUT_SECONDS, env=self._files_in(folder))
        return one_line(done.stderr.decode("utf-8", "replace"), 200) if done.returncode else None

    def _files_in(self, folder: Path) -> dict[str, str]:
        return {**_ENGLISH, "GIT_DIR": str(self._own), "GIT_WORK_TREE": str(folder)}


def find(folder: Path) -> Repository | None:
    """Return the repository around a folder. Returns None if there is no repository, or if git is missing.

    Raises GitError if the repository is bare, unreadable, or not trusted by git.
    """
    try:
        done = _run(folder, "rev-parse", "--show-toplevel", "--absolute-git-dir", "--show-prefix")
    except OSError:
        return None
    if b"not a git repository" in done.stderr:
        return None
    if done.returncode:
        raise _refusal(done)
    top, own, prefix, *_ = os.fsdecode(done.stdout).split("\n")
    return Repository(folder, Path(top), prefix, commit_of(folder, "HEAD"), Path(own))


def folder_in(top: Path, prefix: str) -> Path:
    """Return the project's folder in a checkout. Raises GitError if the commit has no such folder."""
    if not (top / prefix).is_dir():
        raise GitError(f"has no folder {one_line(prefix)}")
    return top / prefix


def is_commit(word: str) -> bool:
    """Return whether a word is a full commit hash. Git cannot mistake such a word for an option."""
    return _COMMIT.fullmatch(word) is not None


def commit_of(folder: Path, word: str) -> str | None:
    """Return the full hash of the commit that a word names in a folder's repository, or None if there is none."""
    # Older versions of git take a word that begins with a dash for an option.
    return None if word.startswith("-") else _name(folder, "--verify", "--quiet", f"{word}^{{commit}}")


def short_name(folder: Path, commit: str) -> str:
    """Return the shortest hash that is unique for a commit in the repository."""
    return _name(folder, "--short", commit) or commit[:12]


def _name(folder: Path, *words: str) -> str | None:
    try:
        done = _run(folder, "rev-parse", *words)
    except (OSError, ValueError):  # git is missing, or a word cannot be passed on a command line
        return None
    return None if done.returncode else done.stdout.decode("ascii", "replace").strip()


def _run(
    folder: Path, *words: str, given: bytes = b"", seconds: float = SECONDS, env: Mapping[str, str] = _ENGLISH
) -> subprocess.CompletedProcess[bytes]:
    own = {name: value for name, value in os.environ.items() if not _OTHER_REPOSITORY.match(name)}
    try:
        return subprocess.run(
            [*_GIT, *words],
            cwd=folder,
            env={**own, **env},
            input=given,
            capture_output=True,
            timeout=seconds,
            start_new_session=True,  # Ctrl-C does not reach git
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git did not answer within {seconds:g} s") from None


def _refusal(done: subprocess.CompletedProcess[bytes]) -> GitError:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
    way_out = f": {lines[-1].strip()}" if "safe.directory" in lines[-1] else ""
    return GitError(one_line(f"git refuses: {lines[0].removeprefix('fatal: ')}{way_out}", 300))
