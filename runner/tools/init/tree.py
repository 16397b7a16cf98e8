"""The Python files of a repository that may be its own: by git's list where there is one, else by a walk."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner.tools.init.git import Repository
from trainkit.files import is_file

MOST_FILES = 4_000
MOST_ENTRIES = 200_000
"""Entries of folders that a walk looks at."""
DEEPEST = 12
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
    unread: list[str] = field(default_factory=list)
    """Folders that could not be read."""
    cut: bool = False
    """There is more than is looked at."""


def find(root: Path, repository: Repository) -> Tree:
    """Find the files; links are not followed."""
    tree = Tree()
    listed = repository.files()
    names = _walked(root, tree) if listed is None else iter(listed[0])
    found = sorted((name for name in names if _may_be_own(root, name)), key=lambda name: (name.count("/"), name))
    for name in found:
        if name.endswith(".ipynb"):
            tree.notebooks.append(name)
        elif len(tree.scripts) < MOST_FILES:
            tree.scripts.append(name)
        else:
            tree.cut = True
    if listed is not None:
        folders = {name.rpartition("/")[0] for name in listed[0] if "/" in name}
        closed = {name for name in folders if (root / name).is_dir() and not os.access(root / name, os.R_OK | os.X_OK)}
        tree.unread = sorted({*closed, *listed[1]})
    return tree


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


def _walked(root: Path, tree: Tree) -> Iterator[str]:
    """List the files of a folder without git, level by level."""
    pending, seen = [""], 0
    while pending:
        below = pending.pop(0)
        try:
            with os.scandir(root / below) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            tree.unread.append(below.rstrip("/") or ".")
            continue
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            seen += 1
            if seen > MOST_ENTRIES:
                tree.cut = True
                return
            if not entry.is_dir(follow_symlinks=False):
                yield below + entry.name
            elif not _is_foreign(entry.name) and below.count("/") < DEEPEST:
                pending.append(f"{below}{entry.name}/")
