"""Which files of a repository a script imports, and from which folder each of them is found."""

from __future__ import annotations

import importlib.util
import sys
from functools import lru_cache
from pathlib import Path, PurePosixPath

from runner.tools.init import source
from runner.tools.init.source import Import, Source
from trainkit.files import is_file, is_folder

USUAL_PLACES = ("", "src", "lib", "python")
"""Folders of a repository that hold its packages; the first is the repository itself."""
MOST_MODULES = 500


class Modules:
    """The files behind one script; all paths are from the repository's folder, with slashes."""

    def __init__(self, root: Path, script: str) -> None:
        self.root, self.script = root, script
        self.own = source.read(root / script)
        self.files: dict[str, Source] = {}
        self.places: dict[str, str] = {}
        """The first names of imports that are not beside the script, with the folder that each is found in."""
        self._follow()

    @property
    def signs(self) -> set[str]:
        """The signs of all files."""
        return {sign for one in self.files.values() for sign in one.signs}

    @property
    def frameworks(self) -> list[str]:
        """The frameworks that any of the files imports."""
        return sorted({name for one in self.files.values() for name in one.frameworks})

    def _follow(self) -> None:
        pending = [self.script]
        while pending and len(self.files) < MOST_MODULES:
            file = pending.pop(0)
            read = source.read(self.root / file)
            if file in self.files or read is None:
                continue
            self.files[file] = read
            for one in read.imports:
                pending += self._relative(file, one) if one.level else self._absolute(one)

    def _relative(self, file: str, one: Import) -> list[str]:
        folder = _parent(file)
        for _ in range(one.level - 1):
            folder = _parent(folder)
        return self._files(folder, one)

    def _absolute(self, one: Import) -> list[str]:
        first = one.module.partition(".")[0]
        place = self._place(first)
        if place is None:
            return []
        if place != _parent(self.script):
            self.places.setdefault(first, place)
        return self._files(place, one)

    def _place(self, first: str) -> str | None:
        """Return the folder in which a first name of imports is a module of the repository."""
        folder = _parent(self.script)
        if self._is_module(f"{folder}/{first}"):
            return folder
        if _is_installed(first, str(self.root)):
            return None
        above = [str(one) for one in PurePosixPath(folder).parents] if folder else []
        places = [place if place != "." else "" for place in (*above, *USUAL_PLACES)]
        return next((place for place in places if self._is_module(f"{place}/{first}")), None)

    def _is_module(self, stem: str) -> bool:
        path = self.root / stem.strip("/")
        if is_file(path.with_name(f"{path.name}.py")) or is_file(path / "__init__.py"):
            return True
        return is_folder(path) and path.name.isidentifier() and _has_python(path)

    def _files(self, place: str, one: Import) -> list[str]:
        """List the files of an import: those of the packages that its module is in, the module, what is taken of it."""
        parts = [part for part in one.module.split(".") if part]
        stems = ["/".join([*filter(None, [place]), *parts[:count]]) for count in range(len(parts) + 1)]
        stems += [f"{stems[-1]}/{name}".strip("/") for name in one.names if name.isidentifier()]
        paths = [(f"{stem}.py", f"{stem}/__init__.py") for stem in stems[bool(parts) :] if stem]
        return [path for pair in paths for path in pair if is_file(self.root / path)]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


@lru_cache(maxsize=4_096)
def _has_python(folder: Path) -> bool:
    try:
        return any(path.suffix == ".py" for path in folder.iterdir())
    except OSError:
        return False


@lru_cache(maxsize=4_096)
def _is_installed(name: str, root: str) -> bool:
    """Whether a module is part of Python, or installed outside of a folder; it is not imported."""
    if name in sys.stdlib_module_names:
        return True
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return False
    if found is None or found.origin is None:  # none, or a folder without __init__.py
        return False
    return not Path(found.origin).is_relative_to(root) or "site-packages" in found.origin
