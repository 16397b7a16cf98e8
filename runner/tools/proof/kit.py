"""An archive of `runner bundle` as the place of a run's code; with the clone of its project, if it holds none."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.records import archive, manifest
from runner.records.archive import Archive
from runner.records.provenance import LOCKS
from runner.tools.proof.sources import LACKS, Tree
from trainkit import files

PROJECT = "project"
_TREE = re.compile("(?:[0-9a-f]{40}|[0-9a-f]{64})(?:-[0-9a-f]{12})?")


def tree_name(code: dict[str, Any]) -> str | None:
    """Name the folder of the project's files as a run had them, by commit and changes; None without a commit."""
    changes = code.get("diff_sha256")
    name = f"{code.get('commit')}-{str(changes)[:12]}" if changes else str(code.get("commit"))
    return f"{PROJECT}/{name}" if _TREE.fullmatch(name) else None


class Kit:
    """The code of an archive: no git is asked, and the changes to a commit are in its files already."""

    root = None

    def __init__(self, opened: Archive, clone: Tree | None) -> None:
        self.archive = opened
        self._clone = None if files.is_folder(opened.folder / PROJECT) else clone

    def has(self, program: str) -> bool:
        """Return whether the clone has the program; True for an archive with code: its commit names what it lacks."""
        return self._clone.has(program) if self._clone else True

    def here(self, program: str) -> str | None:
        """Hash the programs of the clone; None for an archive with code, which is no checkout."""
        return self._clone.here(program) if self._clone else None

    def locks(self, code: dict[str, Any]) -> set[str]:
        """Hash the lock files of a commit that are there."""
        if self._clone:
            return self._clone.locks(code)
        tree = self._tree(code)
        found = [tree / name for name in LOCKS if files.is_file(tree / name)] if tree else []
        return {manifest.hash_file(path, self.archive.folder).sha256 for path in found}

    def check_out(self, code: dict[str, Any], folder: Path, diff: bytes | None) -> tuple[Path | None, str]:
        """Copy the project's files into an empty folder. Returns the project's folder in it; None, and why, if not."""
        if self._clone:
            if diff is not None:
                return None, "has uncommitted changes, which are not applied out of an archive: bundle it with its code"
            return self._clone.check_out(code, folder, None)
        tree = self._tree(code)
        if tree is None:
            return None, "is not in the archive"
        return Path(shutil.copytree(tree, folder / PROJECT)), ""

    def lacks(self, code: dict[str, Any]) -> list[str]:
        """Name what the archive says that the commit does not hold."""
        if self._clone:
            return self._clone.lacks(code)
        begins = {f"{begin}{tree_name(code)}/": words for begin, words in LACKS.items()}
        lines = [(line, begin) for begin in begins for line in self.archive.said if line.startswith(begin)]
        return [begins[begin].format(line.removeprefix(begin)) for line, begin in lines]

    def _tree(self, code: dict[str, Any]) -> Path | None:
        name = tree_name(code)
        return self.archive.folder / name if name and files.is_folder(self.archive.folder / name) else None


@contextmanager
def opened(path: Path, clone: Tree | None) -> Iterator[Kit]:
    """Open an archive in a block, as `archive.opened` does."""
    with archive.opened(path) as found:
        yield Kit(found, clone)
