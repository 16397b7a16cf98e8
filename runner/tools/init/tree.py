"""The Python files of a repository that may be its own: by git's list where there is one, else by a walk."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from runner.core import git
from trainkit.files import is_file

MOST_FILES = 4_000
MOST_ENTRIES = 200_000
"""Files that a walk looks at."""
DEEPEST = 12
_GIT_SECONDS = 20
_NOT_OWN = {
    *("site-packages", "dist-packages", "node_modules", "third_party", "vendor", "venv", "env", "virtualenv"),
    *("build", "dist", "test", "tests", "testing", "doc", "docs", "__pycache__"),
    *("wandb", "mlruns", "lightning_logs", "checkpoints", "results"),
}
_NO_PROGRAMS = re.compile(r"setup|conftest|noxfile|fabfile|tasks|versioneer|_version|test_.*|.*_test|tests?")


@dataclass
class Tree:
    """What was found; paths are from the folder, the nearest first."""

    scripts: list[str] = field(default_factory=list)
    notebooks: list[str] = field(default_factory=list)


def find(root: Path, repository: git.Repository | None) -> Tree:
    """Find the files; links are not followed."""
    tree = Tree()
    names = _of_git(repository) if repository else islice(_walked(root), MOST_ENTRIES)
    found = sorted({name for name in names if _may_be_own(root, name)}, key=lambda name: (name.count("/"), name))
    tree.scripts = [name for name in found if name.endswith(".py")][:MOST_FILES]
    tree.notebooks = [name for name in found if name.endswith(".ipynb")]
    return tree


def _of_git(repository: git.Repository) -> list[str]:
    """List what is tracked or could be."""
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return os.fsdecode(repository.ask(*words, seconds=_GIT_SECONDS)).split("\0")


def _may_be_own(root: Path, name: str) -> bool:
    """Return whether a file is a program or a notebook, in no folder of others."""
    *folders, file = name.split("/")
    stem, dot, suffix = file.rpartition(".")
    if not dot or suffix not in ("py", "ipynb") or (suffix == "py" and _NO_PROGRAMS.fullmatch(stem)):
        return False
    if any(_is_foreign(folder) for folder in folders) or len(folders) > DEEPEST or file.startswith("."):
        return False
    return is_file(root / name)


def _is_foreign(folder: str) -> bool:
    return folder.startswith(".") or folder.lower() in _NOT_OWN or folder.endswith((".egg-info", ".dist-info"))


def _walked(root: Path) -> Iterator[str]:
    """List the files of a folder without git."""
    for folder, folders, names in os.walk(root):
        if "pyvenv.cfg" in names:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not _is_foreign(name)]
        yield from (os.path.relpath(os.path.join(folder, name), root) for name in names)  # noqa: PTH118
