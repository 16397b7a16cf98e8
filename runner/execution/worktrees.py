"""Commits as folders: each is a repository of its own in the folder for temporary files, removed in the end."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from runner.core import git
from runner.core.errors import Interrupted, RequestError
from runner.core.temporary import temporary_folder
from runner.execution.signals import Interrupts

DATA = "data"
"""The project's folder of prepared data, which no commit holds."""


class Worktrees:
    """Makes folders of the commits of one repository, below which the project's root is; it is not changed by that."""

    def __init__(self, root: Path, folder: Path, interrupts: Interrupts) -> None:
        self._root, self._folder, self._interrupts = root, folder, interrupts
        self.made = 0
        self.notes: list[str] = []

    def add(self, commit: str) -> Path:
        """Check a commit out and return the project's folder in it; RequestError if that fails."""
        path = self._folder / str(self.made)
        self.made += 1
        try:
            with self._interrupts.raising():
                project = git.folder_in(path, self._check_out(path, commit))
        except KeyboardInterrupt:
            raise Interrupted from None
        except git.GitError as error:
            raise RequestError(f"{commit}: cannot be checked out to {path}: {error}") from None
        self._show_data(project)
        return project

    def _check_out(self, path: Path, commit: str) -> str:
        repository = git.find(self._root)
        if repository is None:
            raise git.GitError("this is no git repository")
        own = path / ".git"
        own.mkdir(parents=True)
        replace(repository, commit=commit).lay_out(own, with_index=False)
        view = git.View(own, path, path, repository.settings)
        view.check_out(commit)
        if left := view.filtered():
            self.notes.append(f"{commit[:12]}: {git.unfiltered(left)}")
        return repository.prefix

    def _show_data(self, project: Path) -> None:
        """Link the data that was prepared in the checkout, so that it need not be prepared again."""
        with suppress(OSError):
            if (project / DATA).is_symlink():
                if (project / DATA).exists():
                    return  # it shows data of its own, into which nothing is written
                (project / DATA).unlink()
            for entry in (self._root / DATA).iterdir():
                if not (project / DATA / entry.name).exists():
                    (project / DATA).mkdir(exist_ok=True)
                    (project / DATA / entry.name).symlink_to(entry.resolve())


@contextmanager
def worktrees(root: Path, interrupts: Interrupts) -> Iterator[Worktrees]:
    """Make folders of commits in a block; in the end, however it comes, they are removed."""
    with temporary_folder("compare") as folder:
        yield Worktrees(root, folder, interrupts)
