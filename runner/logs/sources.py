"""The logs of a path: a file, stdin, or all files below a folder; each becomes one JSON object."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError, reason_of
from runner.core.text import one_line
from runner.logs.dialect import Dialect, built_in, load
from runner.logs.metrics import compiled
from runner.logs.reading import read_log, read_stream
from runner.logs.summary import summary, unread
from trainkit import files

_OF_A_RUN = ("run.json", "raw", "request")
Log = tuple[dict[str, Any], list[tuple[int, str]]]
"""The object of a log, and its last lines with their numbers."""
Metrics = Mapping[str, Mapping[str, str]]


def is_log(path: Path) -> bool:
    """Return whether a path is read as other people's stdout: a file, or a folder with files and of no run."""
    if any(os.path.lexists(path / name) for name in _OF_A_RUN):
        return False
    if path.is_symlink() or not path.is_dir():  # a link is refused for what it is when it is read
        return os.path.lexists(path)
    is_of_runs = any(next(path.glob(f"{above}/run.json"), None) for above in ("*", "*/*"))
    return not is_of_runs and bool(_below(path))


def dialects_with(paths: Sequence[Path]) -> tuple[Dialect, ...]:
    """Return the dialects of the kit and those of some files; the name of a file's dialect is its own."""
    own = tuple(map(load, paths))
    return (*(dialect for dialect in built_in() if dialect.name not in {mine.name for mine in own}), *own)


def of_stream(read: Callable[[int], bytes], dialects: tuple[Dialect, ...], metrics: Metrics) -> Log:
    """Read what a function returns, to its end."""
    reading = read_stream(read, dialects, metrics=compiled(metrics))
    return summary("-", reading), reading.tail


def of_path(path: Path, dialects: tuple[Dialect, ...], metrics: Metrics) -> Iterator[Log]:
    """Read a file, or each file below a folder; what cannot be read there has a note that says why."""
    is_folder = files.is_folder(path)
    for file in _below(path) if is_folder else [path]:
        name = os.path.relpath(file, path) if is_folder else str(path)
        try:
            reading = read_log(file, dialects, metrics=compiled(metrics))
            yield summary(name, reading), reading.tail
        except (OSError, ValueError) as error:
            if not is_folder:
                raise RequestError(f"{one_line(path)}: cannot be read: {one_line(reason_of(error))}") from None
            yield unread(name, f"not read: {reason_of(error)}"), []


def _below(folder: Path) -> list[Path]:
    """Return what lies below a folder, links and folders that cannot be read with it, and nothing that is hidden."""
    found: list[Path] = []
    failed: list[OSError] = []
    for place, folders, names in os.walk(folder, onerror=failed.append):
        here = Path(place)
        folders[:] = [name for name in folders if name[0] != "."]
        links = [name for name in folders if (here / name).is_symlink()]
        found += [here / name for name in (*names, *links) if name[0] != "."]
    return sorted([*found, *(Path(error.filename) for error in failed)])
