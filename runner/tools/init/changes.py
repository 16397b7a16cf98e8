"""The files that are written: all or none, each whole, and nothing that is there is lost."""

import difflib
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.output import require_outputs
from runner.core.text import one_line
from trainkit.files import write_file


@dataclass(frozen=True)
class Change:
    """A file to write: its text before, None if there is no such file, and after; a new one may be of any bytes."""

    path: Path
    before: str | None
    after: str | bytes

    def diff(self, root: Path) -> str:
        """Return what changes, as `diff -u` shows it."""
        name = self.path.relative_to(root).as_posix()
        if isinstance(self.after, bytes):
            return f"Binary files /dev/null and b/{name} differ ({len(self.after):,} bytes)\n"
        before = (self.before or "").replace("\r\n", "\n").splitlines(keepends=True)
        after = self.after.replace("\r\n", "\n").splitlines(keepends=True)
        source = "/dev/null" if self.before is None else f"a/{name}"
        rows = difflib.unified_diff(before, after, source, f"b/{name}")
        return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)


def write(root: Path, changes: list[Change], folders: Iterable[Path] = ()) -> None:
    """Write all files and make folders; RequestError if one cannot be written, and then all are as they were.

    Nothing is written through a link below the root: it may lead out of the project.
    """
    require_outputs([*(change.path for change in changes), *(folder / "any" for folder in folders)], below=root)
    for change in changes:
        _check(change)
    done: list[Change] = []
    made: list[Path] = []
    try:
        for folder in folders:
            made += _make_folder(folder)
        for change in changes:
            made += _make_folder(change.path.parent)
            done.append(change)
            mode = change.path.stat().st_mode if change.before is not None else None
            write_file(change.path, change.after if isinstance(change.after, bytes) else change.after.encode())
            if mode is not None:
                change.path.chmod(mode & 0o777)
    except BaseException as error:
        _undo(done, made)
        if isinstance(error, OSError):
            where = one_line(error.filename or changes[0].path)
            raise RequestError(f"{where}: cannot be written: {error.strerror}; nothing was changed") from None
        raise


def _check(change: Change) -> None:
    """Refuse what cannot be written, or has changed since it was read, before anything is."""
    path = change.path
    folder = next(parent for parent in path.parents if os.path.lexists(parent))
    wrong = None
    if not folder.is_dir():
        wrong = f"{one_line(folder)} is no folder"
    elif not os.access(folder, os.W_OK | os.X_OK):
        wrong = f"{one_line(folder)} cannot be written: you have no right to"
    elif (path.read_bytes() if path.exists() else None) != (None if change.before is None else change.before.encode()):
        wrong = f"{one_line(path)} has changed meanwhile: try again"
    if wrong:
        raise RequestError(f"{wrong}; nothing was written")


def _make_folder(folder: Path) -> list[Path]:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir()
    return missing


def _undo(done: list[Change], made: list[Path]) -> None:
    for change in done:
        with suppress(OSError):
            if change.before is None:
                change.path.unlink(missing_ok=True)
            else:
                write_file(change.path, change.before.encode())
    for folder in sorted(made, key=lambda path: -len(path.parts)):
        with suppress(OSError):
            folder.rmdir()
