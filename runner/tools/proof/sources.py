"""The programs of a run as a project has them now, or had them at a commit, by the hash that records have."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from runner.core import git
from runner.core.errors import KitError
from runner.core.temporary import temporary_folder
from runner.core.text import one_line
from runner.definitions import program as programs
from runner.definitions.settings import nearest
from runner.records.provenance import LOCKS
from trainkit import files
from trainkit.sources import hash_sources

DIFF = "request/code.diff"
REFUSED = "does not take the kept changes"
LARGEST_LOCK = 20_000_000
LARGEST_DIFF = 4_000_000
SUBMODULE = "a submodule, left out: "
LACKS = {SUBMODULE: "{}, a submodule"}
"""What is said of what a commit does not hold: how a line of an archive's manifest begins, and the words."""


class Tree(Protocol):
    """What knows programs and lock files by commit."""

    @property
    def root(self) -> Path | None:
        """The folder of the project, of which code may be run; None if nothing may be."""

    def has(self, program: str) -> bool:
        """Return whether programs can be looked for here: in a project, or where this script was run without one."""

    def here(self, program: str) -> str | None:
        """Hash the programs of this checkout; None if it has none."""

    def locks(self, code: dict[str, Any]) -> set[str]:
        """Hash the lock files that there are, of this checkout and of the commit that a record's code names."""

    def check_out(self, code: dict[str, Any], folder: Path, diff: bytes | None) -> tuple[Path | None, str]:
        """Put the project's files, as a record's code names them, into an empty folder, and the kept changes on top.

        Returns the project's folder in it; None, and why, if that fails.
        """

    def lacks(self, code: dict[str, Any]) -> list[str]:
        """Name the submodules, which no commit holds."""


class Sources:
    """Reads the programs and the lock file of a project, or of a folder whose scripts are run without one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._is_project = nearest(root) is not None

    def has(self, program: str) -> bool:
        """Return whether this is a project, or the folder of this script."""
        return self._is_project or self.here(program) is not None

    def here(self, program: str) -> str | None:
        """Hash the programs of this checkout."""
        try:
            return hash_sources(programs.find(self.root, program).sources(self.root))
        except (KitError, OSError, ValueError):
            return None

    def locks(self, code: dict[str, Any]) -> set[str]:
        """Hash the lock files as they are here and as they were at a commit; those that are there."""
        found, commit = set(), str(code.get("commit"))
        for name in LOCKS:
            with suppress(OSError):
                found.add(hashlib.sha256(files.read_file(self.root / name, LARGEST_LOCK)).hexdigest())
            with suppress(git.GitError):
                repository = self._with(commit)
                text = repository.ask("cat-file", "blob", f"{commit}:{repository.prefix}{name}")
                found.add(hashlib.sha256(text).hexdigest())
        return found

    def check_out(self, code: dict[str, Any], folder: Path, diff: bytes | None) -> tuple[Path | None, str]:
        """Put the repository's files into an empty folder, whatever part of it the project is.

        They are those of a checkout: `git archive` leaves out and rewrites what `.gitattributes` says.
        """
        try:
            repository = self._with(str(code.get("commit")))
            repository.check_out(str(code["commit"]), folder)
            if diff is not None and (why := repository.apply(diff, folder)):
                return None, f"{REFUSED}: {why}"
            return git.folder_in(folder, repository.prefix), ""
        except git.GitError as error:
            return None, str(error)

    def lacks(self, code: dict[str, Any]) -> list[str]:
        """Name what the commit does not hold of the project's folder."""
        lacking = self.lacking(str(code.get("commit")))
        return [LACKS[kind].format(name) for kind, names in lacking.items() for name in names]

    def lacking(self, commit: str) -> dict[str, list[str]]:
        """Name the submodules of the project's folder at a commit."""
        try:
            lines = os.fsdecode(self._with(commit).ask("ls-tree", "-r", "-z", commit)).split("\0")  # from the folder
        except git.GitError:
            return {}
        return {SUBMODULE: [one_line(line.partition("\t")[2], 200) for line in lines if line.startswith("160000 ")]}

    def _with(self, commit: str) -> git.Repository:
        """Find the project's repository, which has this commit; GitError if it does not."""
        if not git.is_commit(commit):
            raise git.GitError("is none")
        repository = git.find(self.root)
        if repository is None:
            raise git.GitError("cannot be looked for: this is no git repository")
        if git.commit_of(self.root, commit) is None:
            raise git.GitError("is not in this repository: git fetch it")
        return repository


def hash_at(tree: Tree, code: dict[str, Any], program: str, diff: bytes | None) -> tuple[str | None, str]:
    """Hash the programs as a commit has them, with the kept changes; without a hash the second part says why."""
    with temporary_folder("verify") as folder:
        project, why = tree.check_out(code, folder, diff)
        if project is None:
            return None, why
        try:
            return hash_in(project, program), ""
        except (KitError, OSError, ValueError) as error:
            return None, f"does not hold them: {one_line(str(error).replace(f'{one_line(project)}/', ''), 200)}"


def kept_changes(run: Path, sha256: str) -> tuple[bytes | None, str]:
    """Read the changes that a run's folder keeps; the second part says why they are not those of that hash."""
    try:
        diff = files.read_file(run / DIFF, LARGEST_DIFF, below=run)
    except OSError as error:
        return None, f"the tree was dirty, and {DIFF} is lost: {error.strerror}"
    if hashlib.sha256(diff).hexdigest() != sha256:
        return diff, f"{DIFF} was cut at 1 MB or altered: its hash is another"
    return diff, ""


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
