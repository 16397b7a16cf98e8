"""The logs of a path: a file, stdin, or all files below a folder; each becomes one JSON object."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError, reason_of
from runner.core.text import one_line
from runner.logs.dialect import Dialect, built_in, load
from runner.logs.explanation import Explanation
from runner.logs.lines import Tail
from runner.logs.metrics import compiled
from runner.logs.reading import read_log, read_stream
from runner.logs.summary import summary, unread
from trainkit import files

MOST_FILES = 50_000
_DEEPEST = 30
_TOO_DEEP = f"it lies more than {_DEEPEST} folders deep; collect it by itself"
_OF_A_RUN = ("run.json", "raw", "request")
Explain = Callable[[dict[str, Any], Tail], dict[str, Any]]
"""Adds to the object of a log what its last lines say of a failure."""


def _as_it_is(log: dict[str, Any], _: Tail) -> dict[str, Any]:
    return log


def is_log(path: Path) -> bool:
    """Return whether a path is read as other people's stdout: a file, or a folder with files and of no run."""
    is_of_a_run = any(os.path.lexists(path / name) for name in _OF_A_RUN)
    if path.is_symlink():  # read as a log, it is refused for what it is
        return not is_of_a_run
    if not files.is_folder(path):
        return path.exists() and not path.is_dir()
    if is_of_a_run:
        return False
    if any(next(path.glob(f"{above}/run.json"), None) for above in ("*", "*/*")):  # a folder of runs' folders
        return False
    return next(_below(path), None) is not None


def dialects_with(paths: Sequence[Path]) -> tuple[Dialect, ...]:
    """Return the dialects of the kit and those of some files; the name of a file's dialect is its own."""
    own = tuple(map(load, paths))
    return (*(dialect for dialect in built_in() if dialect.name not in {mine.name for mine in own}), *own)


def of_stream(
    read: Callable[[int], bytes],
    dialects: tuple[Dialect, ...],
    name: str = "-",
    explanation: Explanation | None = None,
    explained: Explain = _as_it_is,
    metrics: dict[str, dict[str, str]] | None = None,
) -> dict[str, Any]:
    """Read what a function returns, to its end."""
    reading = read_stream(read, dialects, None, explanation, compiled(metrics or {}))
    return explained(summary(name, reading), reading.tail)


def of_path(
    path: Path,
    dialects: tuple[Dialect, ...],
    explanation: Explanation | None = None,
    explained: Explain = _as_it_is,
    metrics: dict[str, dict[str, str]] | None = None,
) -> Iterator[dict[str, Any]]:
    """Read a file, or each file below a folder; what cannot be read there has a note that says why."""
    if not files.is_folder(path):
        try:
            reading = read_log(path, dialects, explanation, compiled(metrics or {}))
            yield explained(summary(str(path), reading), reading.tail)
        except (OSError, ValueError) as error:
            raise RequestError(f"{one_line(path)}: cannot be read: {one_line(reason_of(error))}") from None
        return
    for number, (file, why) in enumerate(_below(path)):
        name = os.path.relpath(file, path)
        if number == MOST_FILES:
            yield unread(name, f"the folder has more than {MOST_FILES:,} files: the others are not read")
            return
        if why:
            yield unread(name, f"not read: {why}")
            continue
        try:
            reading = read_log(file, dialects, None, compiled(metrics or {}))
            yield explained(summary(name, reading), reading.tail)
        except (OSError, ValueError, RequestError) as error:
            yield unread(name, f"not read: {reason_of(error)}")


def _below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files below a folder in the order of their names, and why what is there cannot be read.

    What is hidden, such as a repository's own folder, is left out.
    """
    failed: list[OSError] = []

    def failures() -> Iterator[tuple[Path, str]]:
        while failed:
            error = failed.pop(0)
            yield Path(error.filename or folder), reason_of(error)

    for place, folders, names in os.walk(folder, onerror=failed.append):
        yield from failures()
        here = Path(place)
        folders[:] = [name for name in folders if name[0] != "."]
        links = [name for name in folders if (here / name).is_symlink()]
        if len(here.relative_to(folder).parts) >= _DEEPEST:
            yield from ((here / name, _TOO_DEEP) for name in sorted(set(folders) - set(links)))
            folders.clear()
        folders.sort()
        yield from ((here / name, "") for name in sorted([*names, *links]) if name[0] != ".")
    yield from failures()
