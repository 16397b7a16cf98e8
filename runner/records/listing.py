"""List the folders of runs in `results/` without opening their records."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from runner.core.errors import RequestError

RECORD = "run.json"


def list_runs(results: Path, left_out: list[str]) -> list[str]:
    """Return the paths of all runs with a record, relative to `results`.

    `left_out` receives a note on each skipped folder. Raises RequestError if `results` is no folder.
    """
    if not results.is_dir():
        raise RequestError(f"{results}: there is no such folder; `runner` without arguments shows how to start")
    runs = []
    base = len(str(results)) + 1
    for entry in run_folders(results, left_out):
        try:
            os.stat(f"{entry.path}/{RECORD}", follow_symlinks=False)  # noqa: PTH116 - pathlib is slow for 100,000 runs
            runs.append(entry.path[base:])
        except FileNotFoundError:
            if Path(entry.path, "raw").is_dir():
                make = f"make it with: runner collect {shlex.quote(entry.path)}"
                left_out.append(f"{entry.path}: left out: no {RECORD}; {make}")
        except OSError as error:
            left_out.append(f"{entry.path}: left out: {error.strerror}")
    return runs


def run_folders(results: Path, left_out: list[str]) -> Iterator[os.DirEntry[str]]:
    """Yield the folders of all runs in `results`.

    `results` is a folder of experiments (`<experiment>/<run>/`) or of one experiment (`<run>/`). `left_out` receives a
    note on each skipped folder.
    """
    for outer in _folders(str(results), left_out):
        if os.path.lexists(f"{outer.path}/{RECORD}"):
            yield outer
        else:
            yield from _folders(outer.path, left_out)


def _folders(path: str, left_out: list[str]) -> list[os.DirEntry[str]]:
    folders = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry)
                elif entry.is_symlink():
                    left_out.append(f"{entry.path}: left out: symbolic links are not followed")
    except OSError as error:
        left_out.append(f"{path}: left out: {error.strerror}")
    return sorted(folders, key=lambda entry: entry.name)
