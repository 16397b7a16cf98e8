"""Get the project's files as they were when a run started, from git or from an archive of `runner bundle`."""

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any

from runner.core import git
from runner.core.errors import RunError
from runner.core.text import one_line
from runner.records.unpacking import Archive
from trainkit import files

DIFF = "request/code.diff"
PROJECT = "project"
"""The folder of an archive that holds the project's files at each commit."""
LARGEST_DIFF = 4_000_000
_TREE = re.compile("(?:[0-9a-f]{40}|[0-9a-f]{64})(?:-[0-9a-f]{12})?")


class Sources:
    """The git repository of a project, as the source of a run's code."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def check_out(self, code: dict[str, Any], folder: Path, diff: bytes | None) -> tuple[Path, list[str]]:
        """Check out a run's commit into an empty folder, and apply the uncommitted changes in `diff`.

        Returns the project's folder in the checkout, and a note on each missing submodule. Raises RunError if the code
        cannot be restored. `git archive` is not used, because `.gitattributes` can make it leave out or rewrite files.
        """
        commit = str(code.get("commit"))
        try:
            return self._check_out(commit, code.get("prefix") or "", folder, diff)
        except git.GitError as error:
            raise RunError(f"commit {commit[:12]} {error}") from None

    def _check_out(self, commit: str, prefix: str, folder: Path, diff: bytes | None) -> tuple[Path, list[str]]:
        repository = git.find(self.root)
        if repository is None:
            raise git.GitError("cannot be found: this is not a git repository")
        if prefix != repository.prefix:
            raise git.GitError("belongs to another folder of the repository: run the command there")
        if not git.is_commit(commit) or git.commit_of(self.root, commit) is None:
            raise git.GitError("is not in this repository: git fetch it")
        repository.check_out(commit, folder)
        if diff is not None and (why := repository.apply(diff, folder)):
            raise git.GitError(f"does not accept the kept changes: {why}")
        lines = os.fsdecode(repository.ask("ls-tree", "-r", "-z", commit)).split(
            "\0"
        )  # only below the project's folder
        submodules = [one_line(line.partition("\t")[2], 200) for line in lines if line.startswith("160000 ")]
        left_out = [f"{path}: a submodule: its files are in another repository" for path in submodules]
        return git.folder_in(folder, prefix), left_out


class Kit:
    """The code in an archive, which is copied without running git or applying diffs.

    If the archive has no code, the code comes from a clone.
    """

    def __init__(self, archive: Archive, clone: Sources) -> None:
        self.archive, self._clone = archive, clone

    def check_out(self, code: dict[str, Any], folder: Path, diff: bytes | None) -> tuple[Path, list[str]]:
        """Copy the project's files into an empty folder, as `Sources.check_out` does."""
        commit, name = str(code.get("commit"))[:12], tree_name(code)
        if name and files.is_folder(self.archive.folder / name):
            return Path(shutil.copytree(self.archive.folder / name, folder / PROJECT)), []
        if files.is_folder(self.archive.folder / PROJECT):
            raise RunError(f"commit {commit} is not in the archive")
        if diff is not None:
            why = "has uncommitted changes, which are not applied from an archive: bundle it with its code"
            raise RunError(f"commit {commit} {why}")
        return self._clone.check_out(code, folder, None)


def tree_name(code: dict[str, Any]) -> str | None:
    """Return the archive's folder for a run's code, or None if the record names no commit.

    The folder is named by the commit and a hash of the uncommitted changes.
    """
    changes = code.get("diff_sha256")
    name = f"{code.get('commit')}-{str(changes)[:12]}" if changes else str(code.get("commit"))
    return f"{PROJECT}/{name}" if _TREE.fullmatch(name) else None


def kept_changes(run: Path, code: dict[str, Any]) -> bytes | None:
    """Return a run's uncommitted changes, or None if it had none. Raises RunError if they are lost or altered."""
    if not (sha256 := code.get("diff_sha256")):
        return None
    try:
        diff = files.read_file(run / DIFF, LARGEST_DIFF, below=run)
    except OSError as error:
        raise RunError(f"{one_line(run)}: its uncommitted changes, {DIFF}, are lost: {error.strerror}") from None
    if hashlib.sha256(diff).hexdigest() != sha256:
        raise RunError(f"{one_line(run)}: {DIFF} was cut at 1 MB or altered: its hash differs")
    return diff
