"""An archive of `runner bundle`, unpacked for as long as somebody reads it, and checked first."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from runner.core import git
from runner.core.errors import RequestError, RunError, reason_of
from runner.core.temporary import temporary_folder
from runner.core.text import one_line
from runner.records import manifest
from runner.records.provenance import LOCKS
from runner.tools.proof.altered import altered
from runner.tools.proof.archive import TOP, difference, unpack
from runner.tools.proof.bundle import PROJECT, RESULTS
from runner.tools.proof.sources import LACKS, Tree, apply_changes
from trainkit import files


class Kit:
    """What an archive holds: `faults` names each file whose bytes are not those that were packed.

    One without code goes with the clone of its project, if there is one here.
    """

    root = None

    def __init__(self, path: Path, folder: Path, clone: Tree | None) -> None:
        self.path, self.folder = path, folder
        self._clone = None if files.is_folder(folder / PROJECT) else clone
        self._said: list[str] = []
        try:
            known = manifest.read(files.read_file(folder / manifest.NAME, manifest.LARGEST, below=folder))
        except (OSError, ValueError) as error:
            self.faults = [one_line(f"{manifest.NAME}: {reason_of(error)}")]
            return
        self._said = known.said
        self.faults = altered(known, folder)
        if not self.faults and (between := difference(path, folder)):
            self.faults = [between]

    @property
    def results(self) -> Path:
        """The folder of the records; RequestError if there is none."""
        if not files.is_folder(self.folder / RESULTS):
            raise RequestError(f"{one_line(self.path)}: there are no records in it")
        return self.folder / RESULTS

    def tree(self, commit: str) -> Path | None:
        """Return the folder of the project's files at a commit, if the archive has it."""
        folder = self.folder / PROJECT / commit
        return folder if git.is_commit(commit) and files.is_folder(folder) else None

    def has(self, program: str) -> bool:
        """Return whether the clone has the program; True for an archive with code: its commit names what it lacks."""
        return self._clone.has(program) if self._clone else True

    def here(self, program: str) -> str | None:
        """Hash the programs of the clone; None for an archive with code, which is no checkout."""
        return self._clone.here(program) if self._clone else None

    def locks(self, commit: str) -> set[str]:
        """Hash the lock files of a commit that are there."""
        if self._clone:
            return self._clone.locks(commit)
        tree = self.tree(commit)
        found = [tree / name for name in LOCKS if files.is_file(tree / name)] if tree else []
        return {manifest.hash_file(path, self.folder).sha256 for path in found}

    def check_out(self, code: dict[str, Any], folder: Path, diff: bytes | None) -> tuple[Path | None, str]:
        """Put the project's files into an empty folder, where they lie in their repository, with the kept changes.

        Returns the project's folder in it; None, and why, if that fails. Changes to other parts of the repository are
        left out: their files are not there.
        """
        if self._clone:
            return self._clone.check_out(code, folder, diff)
        tree = self.tree(str(code.get("commit")))
        if tree is None:
            return None, "is not in the archive"
        prefix = str(code.get("prefix") or "")
        place = PurePosixPath(prefix)
        if place.is_absolute() or ".." in place.parts or "\0" in prefix:
            return None, "lies in a folder that leads elsewhere"
        project = Path(shutil.copytree(tree, folder / "repository" / place, symlinks=True))
        why = None if diff is None else apply_changes(folder / "repository", diff, place)
        return (None, why) if why else (project, "")

    def lacks(self, commit: str) -> list[str]:
        """Name what the archive says that the commit does not hold."""
        if self._clone:
            return self._clone.lacks(commit)
        begins = {f"{begin}{PROJECT}/{commit}/": words for begin, words in LACKS.items()}
        lines = [(line, begin) for begin in begins for line in self._said if line.startswith(begin)]
        return [begins[begin].format(line.removeprefix(begin)) for line, begin in lines]


@contextmanager
def opened(path: Path, clone: Tree | None = None) -> Iterator[Kit]:
    """Unpack an archive in a block; RunError if it was cut off or would write outside, RequestError if it is none."""
    with temporary_folder("kit") as scratch:
        unpack(path, scratch)
        folder = scratch / TOP
        if not files.is_folder(folder):
            raise RunError(f"{one_line(path)}: no level: an empty archive")
        yield Kit(path, folder, clone)
