"""Commits as folders: each is a worktree of git in the folder for temporary files, removed in the end."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from runner.core import git
from runner.core.errors import Interrupted, RequestError
from runner.core.temporary import temporary_folder
from runner.core.text import listed, one_line
from runner.execution.signals import Interrupts

DATA = "data"
"""The project's folder of prepared data, which no commit holds."""


class Worktrees:
    """Makes folders of the commits of one repository, below which the project's root is."""

    def __init__(self, root: Path, interrupts: Interrupts, with_files: Sequence[str]) -> None:
        self._root, self._interrupts, self._with_files = root, interrupts, with_files
        self.folder = Path()
        self._made: list[Path] = []
        self.notes: list[str] = []

    def add(self, commit: str) -> Path:
        """Check a commit out and return the project's folder in it; RequestError if that fails."""
        if (repository := git.find(self._root)) is None:
            raise RequestError(f"{self._root}: no git repository")
        path = self.folder / str(len(self._made))
        self._made.append(path)
        try:
            with self._interrupts.raising():
                words = ("-c", "core.sparseCheckout=false", "worktree", "add", "--force", "--detach", str(path), commit)
                repository.ask(*words, seconds=git.CHECKOUT_SECONDS)
        except KeyboardInterrupt:
            raise Interrupted from None
        except git.GitError as error:
            raise RequestError(f"{commit}: cannot be checked out to {path}: {error}") from None
        project = git.folder_in(path, repository.prefix)
        data = project / DATA
        if data.is_symlink() and not data.exists():
            data.unlink()
        if (self._root / DATA).is_dir():  # so that it need not be prepared again
            if not os.path.lexists(data):
                data.mkdir()
            _link(self._root / DATA, data)
        bring(self._root, project, self._with_files)
        if (left := lacking(self._root, project)) and left not in self.notes:
            self.notes.append(left)
        return project

    def forget(self) -> None:
        """Let the repository forget the worktrees, whose folders are gone; a signal may have left half of one."""
        if self._made and (repository := git.find(self._root)):
            for path in self._made:
                repository.run("worktree", "remove", "--force", "--force", str(path))


@contextmanager
def worktrees(root: Path, interrupts: Interrupts, with_files: Sequence[str] = ()) -> Iterator[Worktrees]:
    """Make folders of commits in a block; in the end, however it comes, they are removed."""
    with ExitStack() as stack:
        made = Worktrees(root, interrupts, with_files)
        stack.callback(made.forget)
        made.folder = stack.enter_context(temporary_folder("compare"))
        yield made


def bring(root: Path, project: Path, names: Sequence[str]) -> None:
    """Link files and folders of a project into the folder of a commit, beside what the commit has there.

    Raises RequestError for a name that is not there.
    """
    for name in names:
        path = Path(os.path.normpath(root / name))
        if not path.exists() or not path.is_relative_to(root):
            raise RequestError(f"--with-files {one_line(name)}: there is nothing of that name in {one_line(root)}")
        _link(path, project / path.relative_to(root))


def _link(source: Path, target: Path) -> None:
    """Show a file or a folder at another place, or of a folder that is there already each entry that it lacks."""
    if not os.path.lexists(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.resolve())
    elif source.is_dir() and target.is_dir() and not target.is_symlink():
        for entry in source.iterdir():
            _link(entry, target / entry.name)


def lacking(root: Path, project: Path) -> str:
    """Say which files and folders of a project are not in the folder of a commit; empty if there are none.

    Of a file its folder is named. Caches, records, environments and what is hidden do not count.
    """
    try:
        if (repository := git.find(root)) is None:
            return ""
        found = os.fsdecode(repository.ask("ls-files", "-z", "--others", "--directory", "--no-empty-directory"))
    except git.GitError:
        return ""
    names = [name for name in found.split("\0")[:-1] if not _is_by_product(root / name, f"/{name}")]
    folders = dict.fromkeys(
        f"{name.rpartition('/')[0]}/" if "/" in name else name for name in names if not os.path.lexists(project / name)
    )
    why = "a commit is run in a temporary folder, without what git does not hold"
    return one_line(f"{why}: {listed(folders)}; --with-files {next(iter(folders))} brings it") if folders else ""


def _is_by_product(path: Path, name: str) -> bool:
    is_cache = "/." in name or "/__pycache__/" in name
    return is_cache or (path / "pyvenv.cfg").exists() or any(path.glob("*/*/run.json"))
