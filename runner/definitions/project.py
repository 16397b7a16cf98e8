"""The project's folder, and the definitions in it."""

from __future__ import annotations

import os
from pathlib import Path

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.definitions.settings import find_project, settings_of

_SUFFIXES = (".yaml", ".yml")


def project_root(start: Path) -> Path:
    """Return the folder of the project that `start` is in; RequestError if it is in none."""
    return find_project(start).root


def files(root: Path) -> list[Path]:
    """List the definitions of a project: those of every family, and those that belong to none.

    A folder that cannot be read, or that is a link, is listed itself: `load` says what is wrong with it.
    """
    folder = settings_of(root).folder
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return [folder] if folder.exists() else []
    found: list[Path] = []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            found += _definitions(Path(entry.path))
        elif entry.name.endswith(".yaml") or (entry.is_symlink() and entry.is_dir()):
            found.append(Path(entry.path))
    return sorted(found, key=lambda path: path.stem)


def _definitions(family: Path) -> list[Path]:
    try:
        return [path for path in family.iterdir() if path.name.endswith(".yaml")]
    except OSError:
        return [family]


def find(name: str, root: Path) -> Path:
    """Find a definition by its name, `mnist`, or by the path of its file."""
    as_path = Path(name)
    if as_path.suffix in _SUFFIXES or os.path.isfile(as_path):  # noqa: PTH113 - a long name is no error
        return as_path
    known = {file.stem: file for file in files(root)}
    if name not in known:
        raise RequestError(f"no experiment '{one_line(name)}' in {settings_of(root).folder}{did_you_mean(name, known)}")
    return known[name]


def refuse_twins(path: Path, root: Path) -> None:
    """Refuse a definition of the project whose name stands twice."""
    twins = [other for other in files(root) if other.stem == path.stem]
    if len(twins) > 1 and path.resolve() in [other.resolve() for other in twins]:
        places = " and ".join(str(one.relative_to(root)) for one in sorted(twins))
        raise RequestError(one_line(f"the name '{path.stem}' stands twice: {places}; rename one of them"))
