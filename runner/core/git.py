"""The one caller of git: plain git, in the user's own repository, with its hooks and its file monitor off."""

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
"""Variables that a hook or a shell may have set; the folder alone says which repository is asked."""
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class GitError(RequestError):
    """Git is there, and has not answered what it was asked."""


@dataclass(frozen=True)
class Repository:
    """A repository with files, and where a folder lies in it; `commit` is None before the first one."""

    folder: Path
    top: Path
    prefix: str
    commit: str | None
    _own: Path

    def run(
        self, *words: str, given: bytes = b"", seconds: float = SECONDS, env: Mapping[str, str] = _ENGLISH
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git in the folder, however it ends; GitError if it does not answer."""
        return _run(self.folder, *words, given=given, seconds=seconds, env=env)

    def ask(self, *words: str, seconds: float = SECONDS, env: Mapping[str, str] = _ENGLISH) -> bytes:
        """Return what git prints; GitError if it fails."""
        done = self.run(*words, seconds=seconds, env=env)
        if done.returncode:
            raise _refusal(done)
        return done.stdout

    def check_out(self, commit: str, folder: Path) -> None:
        """Write a commit's files into an empty folder; the repository's own index and files stay as they are."""
        words = ("-c", "core.sparseCheckout=false", "read-tree", "--reset", "-u", commit)
        with temporary_folder("git") as scratch:
            env = {**self._files_in(folder), "GIT_INDEX_FILE": str(scratch / "index")}
            self.ask("-C", str(folder), *words, seconds=CHECKOUT_SECONDS, env=env)

    def apply(self, diff: bytes, folder: Path) -> str | None:
        """Apply a diff to the files of a folder; say why, if that fails."""
        words = ("-C", str(folder), "apply", "--whitespace=nowarn", "-")
        done = self.run(*words, given=diff, seconds=CHECKOUT_SECONDS, env=self._files_in(folder))
        return one_line(done.stderr.decode("utf-8", "replace"), 200) if done.returncode else None

    def _files_in(self, folder: Path) -> dict[str, str]:
        return {**_ENGLISH, "GIT_DIR": str(self._own), "GIT_WORK_TREE": str(folder)}


def find(folder: Path) -> Repository | None:
    """Find the repository that a folder is in; None without one or without git.

    GitError if git does not trust it, cannot read it, or if it has no files, as a bare one.
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
    """Return the folder of a checkout that a project is; GitError if the commit has none."""
    if not (top / prefix).is_dir():
        raise GitError(f"has no folder {one_line(prefix)}")
    return top / prefix


def is_commit(word: str) -> bool:
    """Return whether a word is a full hash of a commit, and so no option of git."""
    return _COMMIT.fullmatch(word) is not None


def commit_of(folder: Path, word: str) -> str | None:
    """Return the full hash of the commit that a word names in a folder's repository; None if it names none."""
    # A word that begins with a dash would be an option of older versions of git.
    return None if word.startswith("-") else _name(folder, "--verify", "--quiet", f"{word}^{{commit}}")


def short_name(folder: Path, commit: str) -> str:
    """Return a commit's hash as short as the repository allows."""
    return _name(folder, "--short", commit) or commit[:12]


def _name(folder: Path, *words: str) -> str | None:
    try:
        done = _run(folder, "rev-parse", *words)
    except (OSError, ValueError):  # no git, or a word that no command line can carry
        return None
    return None if done.returncode else done.stdout.decode("ascii", "replace").strip()


def _run(
    folder: Path, *words: str, given: bytes = b"", seconds: float = SECONDS, env: Mapping[str, str] = _ENGLISH
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a session of its own, which gets no Ctrl-C; GitError if it takes too long."""
    own = {name: value for name, value in os.environ.items() if not _OTHER_REPOSITORY.match(name)}
    try:
        return subprocess.run(
            [*_GIT, *words],
            cwd=folder,
            env={**own, **env},
            input=given,
            capture_output=True,
            timeout=seconds,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git did not answer within {seconds:g} s") from None


def _refusal(done: subprocess.CompletedProcess[bytes]) -> GitError:
    """Return git's reason; of a repository of another user with the command that makes git trust it."""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
    way_out = f": {lines[-1].strip()}" if "safe.directory" in lines[-1] else ""
    return GitError(one_line(f"git refuses: {lines[0].removeprefix('fatal: ')}{way_out}", 300))
