"""The programs of a run as a project has them now, or had them at a commit, by the hash that records have."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from runner.core.errors import KitError
from runner.core.text import one_line
from runner.definitions import program as programs
from trainkit import files
from trainkit.sources import hash_sources

LOCK = "requirements.lock"
DIFF = "request/code.diff"
REFUSED = "does not take the kept changes"
LARGEST_LOCK = 20_000_000
LARGEST_DIFF = 4_000_000
_GIT_SECONDS = 120


class Tree(Protocol):
    """What knows programs and lock files by commit."""

    def here(self, program: str) -> str | None:
        """Hash the programs of this checkout; None if it has none."""

    def locks(self, commit: str) -> set[str]:
        """Hash the lock files that there are, of this checkout and of the commit."""

    def check_out(self, code: dict[str, Any], folder: Path, diff: bytes | None) -> tuple[Path | None, str]:
        """Put the project's files, as a record's code names them, into an empty folder, and the kept changes on top.

        Returns the project's folder in it; None, and why, if that fails.
        """

    def lacks(self, commit: str) -> list[str]:
        """Name the submodules, whose files no commit holds."""


class Sources:
    """Reads the programs and the lock file of one project."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def here(self, program: str) -> str | None:
        """Hash the programs of this checkout."""
        try:
            return hash_sources(programs.find(self._root, program).sources(self._root))
        except (KitError, OSError, ValueError):
            return None

    def locks(self, commit: str) -> set[str]:
        """Hash the lock file as it is here and as it was at a commit; those that are there."""
        found = set()
        with suppress(OSError):
            found.add(hashlib.sha256(files.read_file(self._root / LOCK, LARGEST_LOCK)).hexdigest())
        done = git(self._root, "show", f"{commit}:./{LOCK}") if is_commit(commit) else None
        if done and done.returncode == 0:
            found.add(hashlib.sha256(done.stdout).hexdigest())
        return found

    def check_out(self, code: dict[str, Any], folder: Path, diff: bytes | None) -> tuple[Path | None, str]:
        """Put the repository's files into an empty folder, whatever part of it the project is."""
        return check_out(self._root, str(code.get("commit")), folder, diff)

    def lacks(self, commit: str) -> list[str]:
        """Name the submodules in the project's folder."""
        return submodules(self._root, commit)


def check_out(root: Path, commit: str, folder: Path, diff: bytes | None) -> tuple[Path | None, str]:
    """Put the repository's files, as a commit has them, into an empty folder, and the kept changes on top.

    They are those of a checkout: `git archive` leaves out and rewrites what `.gitattributes` says. Returns the
    project's folder in it; None, and why, if that fails.
    """
    if not is_commit(commit):
        return None, "is none"
    places = git(root, "rev-parse", "--show-toplevel", "--show-prefix")
    if places is None or places.returncode:
        return None, "cannot be looked for: this is no git repository"
    top, prefix = places.stdout.decode("utf-8", "surrogateescape").split("\n")[:2]
    index = folder / ".index"
    read = git(Path(top), "-c", "core.sparseCheckout=false", "read-tree", commit, GIT_INDEX_FILE=str(index))
    if read is None or read.returncode:
        return None, "is not in this repository: git fetch it"
    written = git(Path(top), "checkout-index", "--all", "--quiet", f"--prefix={folder}/", GIT_INDEX_FILE=str(index))
    index.unlink(missing_ok=True)
    if written is None or written.returncode:
        return None, "cannot be checked out"
    why = None if diff is None else apply_changes(folder, diff)
    if why or not (folder / prefix).is_dir():
        return None, why or f"has no folder {one_line(prefix)}"
    return folder / prefix, ""


def lay_out(tree: Path, prefix: str, folder: Path, diff: bytes | None) -> tuple[Path | None, str]:
    """Copy a project's files into an empty folder, where they lie in their repository, and the kept changes on top.

    Returns the project's folder in it; None, and why, if that fails. Changes to other parts of the repository are left
    out: their files are not there.
    """
    place = PurePosixPath(prefix)
    if place.is_absolute() or ".." in place.parts or "\0" in prefix:
        return None, "lies in a folder that leads elsewhere"
    project = Path(shutil.copytree(tree, folder / "repository" / place, symlinks=True))
    why = None if diff is None else apply_changes(folder / "repository", diff, place)
    return (None, why) if why else (project, "")


def submodules(root: Path, commit: str) -> list[str]:
    """Name the submodules below a project's folder, as a commit has them."""
    done = git(root, "ls-tree", "-r", "-z", commit) if is_commit(commit) else None
    lines = done.stdout.decode("utf-8", "replace").split("\0") if done and done.returncode == 0 else []
    return [one_line(line.partition("\t")[2], 200) for line in lines if line.startswith("160000 ")]


def hash_at(tree: Tree, code: dict[str, Any], program: str, diff: bytes | None) -> tuple[str | None, str]:
    """Hash the programs as a commit has them, with the kept changes; without a hash the second part says why."""
    with tempfile.TemporaryDirectory(prefix="runner-verify-", ignore_cleanup_errors=True) as folder:
        project, why = tree.check_out(code, Path(folder), diff)
        if project is None:
            return None, why
        try:
            return hash_in(project, program), ""
        except (KitError, OSError, ValueError) as error:
            return None, f"does not hold them: {one_line(str(error).replace(f'{one_line(project)}/', ''), 200)}"


def read_changes(run: Path) -> bytes:
    """Read the changes that a run's folder keeps; OSError if they are lost, no regular file or too large."""
    return files.read_file(run / DIFF, LARGEST_DIFF, below=run)


def apply_changes(folder: Path, diff: bytes, only: PurePosixPath | None = None) -> str | None:
    """Apply kept changes, `only` those below a folder, to a tree that is no repository; say why, if that fails."""
    below = re.sub(r"([][*?\\])", r"\\\1", str(only))
    command = ["git", "apply", "--whitespace=nowarn", *([f"--include={below}/*"] if only and only.parts else []), "-"]
    applied = _run(command, folder, diff, GIT_CEILING_DIRECTORIES=str(folder.parent))
    if applied is not None and applied.returncode == 0:
        return None
    why = one_line((applied.stderr if applied else b"git is missing").decode("utf-8", "replace"), 200)
    return f"{REFUSED}: {why}"


def is_commit(word: str) -> bool:
    """Whether a word from a record is a full hash of a commit, and so no option of git."""
    return len(word) in (40, 64) and all(letter in "0123456789abcdef" for letter in word)


def git(root: Path, *words: str, **env: str) -> subprocess.CompletedProcess[bytes] | None:
    """Run git in a project's folder; None if it is missing or takes too long."""
    return _run(["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *words], root, b"", **env)


def _run(command: list[str], cwd: Path, given: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes] | None:
    every = {**os.environ, **env}
    try:
        return subprocess.run(
            command, cwd=cwd, env=every, input=given, capture_output=True, timeout=_GIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def hash_in(folder: Path, name: str) -> str:
    """Hash the programs of another tree than the one that is imported, the library of that tree among them."""
    found = programs.find(folder, name).sources(folder)
    library = folder / "trainkit"
    if library.is_dir() and any(path.startswith("trainkit/") for path in found):
        found = {path: text for path, text in found.items() if not path.startswith("trainkit/")}
        found |= {
            path.relative_to(folder).as_posix(): files.read_file(path, LARGEST_LOCK, below=folder)
            for path in library.rglob("*.py")
            if files.is_file(path)
        }
    return hash_sources(found)
