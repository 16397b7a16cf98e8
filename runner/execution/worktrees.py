"""Check out commits as temporary git worktrees."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.core import git
from runner.core.errors import RequestError
from runner.core.temporary import temporary_folder
from runner.core.text import one_line
from runner.execution.signals import Interrupts

DATA = "data"
"""The project's folder of prepared data, which is not committed."""


@contextmanager
def worktrees(root: Path, interrupts: Interrupts, with_files: Sequence[str] = ()) -> Iterator[Callable[[str], Path]]:
    """Yield a function that checks out a commit and returns the project's folder in the checkout.

    The function raises RequestError if the checkout fails. Checkouts are removed at the end of the block.
    """
    made: list[Path] = []
    repository = git.find(root)

    def add(commit: str) -> Path:
        if repository is None:
            raise RequestError(f"{root}: no git repository")
        path = folder / str(len(made))
        made.append(path)
        words = ("-c", "core.sparseCheckout=false", "worktree", "add", "--force", "--detach", str(path), commit)
        try:
            with interrupts.ending():
                repository.ask(*words, seconds=git.CHECKOUT_SECONDS)
        except git.GitError as error:
            raise RequestError(f"{commit}: cannot be checked out to {path}: {error}") from None
        project = git.folder_in(path, repository.prefix)
        data = project / DATA
        if data.is_symlink() and not data.exists():
            data.unlink()
        if (root / DATA).is_dir():  # linked entry by entry, so that new files stay in the worktree
            if not os.path.lexists(data):
                data.mkdir()
            _link(root / DATA, data)
        bring(root, project, with_files)
        return project

    try:
        with temporary_folder("compare") as folder:
            yield add
    finally:  # git still lists removed worktrees, and after a signal an unfinished one
        for path in made:
            if repository:
                repository.run("worktree", "remove", "--force", "--force", str(path))


def bring(root: Path, project: Path, names: Sequence[str]) -> None:
    """Link files and folders of a project into the checkout of a commit. Files of the commit take precedence.

    Raises RequestError if a name does not exist in the project.
    """
    for name in names:
        path = Path(os.path.normpath(root / name))
        if not path.exists() or not path.is_relative_to(root):
            raise RequestError(f"--with-files {one_line(name)}: no such file or folder in {one_line(root)}")
        _link(path, project / path.relative_to(root))


def _link(source: Path, target: Path) -> None:
    if not os.path.lexists(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.resolve())
    elif source.is_dir() and target.is_dir() and not target.is_symlink():
        for entry in source.iterdir():
            _link(entry, target / entry.name)
