"""What git says of a project: its commit, whether anything differs from it, and the differences as one text.

`git apply` takes the text whatever the settings of git are, binary files included. Where git did not answer, that is
said: "nothing has changed" would be a guess.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

from runner.core import git
from runner.core.text import one_line

LARGEST_DIFF = 1_000_000
_STATUS = ("status", "--porcelain=v2", "-z", "--untracked-files=normal", "--no-renames", "--ignore-submodules=none")
_DIFF = (
    *("diff", "--binary", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/", "--no-ext-diff", "--no-textconv"),
    *("--no-color", "--no-relative", "--submodule=short", "--ignore-submodules=dirty", "HEAD", "--", ":/"),
)


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
        lines = repository.ask(*_STATUS).split(b"\0")[:-1]
        said["dirty"] = bool(lines)
        if submodules := [name for line in lines if (name := _changed_submodule(line))]:
            said["submodules"] = submodules
        if lines and (diff := repository.ask(*_DIFF)):
            said["diff_sha256"] = hashlib.sha256(diff).hexdigest()
    except git.GitError as error:
        said["git"] = str(error)
    return said, diff if len(diff) <= LARGEST_DIFF else diff[:LARGEST_DIFF] + b"\n... cut\n"


def _changed_submodule(line: bytes) -> str | None:
    """Return the path of a submodule with changed or untracked files, from a line of porcelain version 2."""
    fields = line.split(b" ", 8)
    is_changed = fields[0] == b"1" and fields[2].startswith(b"S") and not fields[2].endswith(b"..")
    return one_line(os.fsdecode(fields[8]), 200) if is_changed else None
