"""What git says of a project: its commit, whether anything differs from it, and the differences as one text.

The text is the same whatever a person's own settings of git are, and `git apply` takes it, binary files included. What
git did not answer is said: nothing is known then, and "nothing has changed" would be a guess.
"""

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.core import git
from runner.core.text import listed
from trainkit.files import is_folder

LARGEST_DIFF = 1_000_000
_MOST_EXCLUDED = 500_000
"""Bytes of the names that a command leaves out."""
# Whether something differs within a submodule would be found by another git, with the settings of the submodule.
_OWN = "--ignore-submodules=dirty"
_STATUS = ("status", "--porcelain=v2", "-z", "--untracked-files=normal", "--no-renames", _OWN)
_DIFF = (
    *("diff", "--binary", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/"),
    *("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", _OWN, "HEAD", "--", ":/"),
)
_COLUMNS = {b"1": (5, 8), b"u": (6, 10)}
"""Where a line of porcelain version 2 has the file's mode and its path, by the kind of the line."""


@dataclass
class _Changes:
    """What differs from a commit: lines of git, submodules with changes of their own, and files with a filter."""

    lines: list[bytes]
    filtered: list[str]
    submodules: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def dirty(self) -> bool | None:
        """Return whether anything differs; None if only that is not known of which git knows nothing."""
        return bool(self.lines or self.submodules) or (None if self.filtered or self.unknown else False)


def describe_repository(root: Path) -> tuple[dict[str, Any], bytes]:
    """Describe the repository that a project is in, and return the text of its uncommitted changes, as far as kept.

    `prefix` is the project's folder in it, `submodules` are those with changes of their own, which the text does not
    have, and `git` says why something is not known; each is left out if there is none. Nothing is said of a folder
    that is in no repository, or in one without a commit.
    """
    said: dict[str, Any] = {}
    diff = b""
    try:
        repository = git.find(root)
        if repository is None or repository.commit is None:
            return said, diff
        said |= {"commit": repository.commit, "dirty": None, "diff_sha256": None}
        if repository.prefix:
            said["prefix"] = os.fsencode(repository.prefix).decode("utf-8", "replace")
        with repository.view() as view:
            changes = _changes(repository, view)
            said["dirty"] = changes.dirty()
            if changes.submodules:
                said["submodules"] = changes.submodules
            if changes.lines:
                said["diff_sha256"], diff = _diff(view, changes.filtered)
        if unknown := [*changes.filtered, *changes.unknown]:
            said["git"] = f"what differs in {listed(unknown, most=3)} is not known: a filter was not run"
    except git.GitError as error:
        said["git"] = str(error)
    return said, diff


def _changes(repository: git.Repository, view: git.View) -> _Changes:
    """Look for what differs from the commit, also within submodules."""
    lines = view.ask(*_STATUS).split(b"\0")[:-1]
    paths = {line: path for line in lines if (path := _path_of_file(line))}
    filtered = view.filtered(list(paths.values()))
    changes = _Changes([line for line in lines if os.fsdecode(paths.get(line, b"")) not in filtered], filtered)
    for name in [os.fsdecode(path) for mode, path in view.entries() if mode == git.GITLINK]:
        folder = repository.top / name
        if not is_folder(folder) or not os.path.lexists(folder / ".git"):
            continue
        module = git.find(folder)
        if module is None or module.commit is None or module.top != folder:
            continue
        with module.view() as inside:
            found = _changes(module, inside)
        if found.dirty():
            changes.submodules.append(name)
        elif found.dirty() is None:
            changes.unknown += [f"{name}/{inner}" for inner in (*found.filtered, *found.unknown)]
    return changes


def _path_of_file(line: bytes) -> bytes | None:
    """Return the path of a line about a tracked file that is there, which a filter may have written."""
    mode, path = _COLUMNS.get(line[:1], (0, 0))
    fields = line.split(b" ", path)
    return fields[path] if path and fields[mode].startswith(git.REGULAR) else None


def _diff(view: git.View, without: list[str]) -> tuple[str | None, bytes]:
    """Hash the changes to tracked files and return their text, cut if it is long; no hash if there are none."""
    digest, kept, size = hashlib.sha256(), bytearray(), 0
    if sum(map(len, without)) > _MOST_EXCLUDED:
        return None, b""
    for block in view.blocks(*_DIFF, *(f":(exclude,top,literal){path}" for path in without)):
        digest.update(block)
        size += len(block)
        kept += block[: LARGEST_DIFF - len(kept)]
    return digest.hexdigest() if size else None, bytes(kept) + (b"\n... cut\n" if size > LARGEST_DIFF else b"")
