"""Which files of a repository a script imports, from which folder each is found, and how the script is started."""

import importlib.util
import re
import sys
from functools import lru_cache
from pathlib import Path, PurePosixPath

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.definition import LONGEST_PROGRAM, PROGRAM, WORD
from runner.tools.init import source
from runner.tools.init.source import SHOWN, Import, Source
from trainkit.files import is_file, is_folder

USUAL_PLACES = ("", "src", "lib", "python")
"""Folders of a repository that hold its packages; the first is the repository itself."""
MOST_MODULES = 500


class Modules:
    """The files behind one script, which can be read; all paths are from the repository's folder, with slashes."""

    def __init__(self, root: Path, script: str) -> None:
        self.root, self.script = root, script
        self.files: dict[str, Source] = {}
        self.places: dict[str, str] = {}
        """The first names of imports that are not beside the script, with the folder that each is found in."""
        self._follow()

    @property
    def signs(self) -> set[str]:
        """The signs of all files."""
        return {sign for file in self.files.values() for sign in file.signs}

    @property
    def frameworks(self) -> list[str]:
        """The frameworks that any of the files imports."""
        return sorted({name for file in self.files.values() for name in file.frameworks})

    @property
    def why(self) -> str:
        """What it does that a training does, as a person is shown it."""
        shown = [sign for sign in SHOWN if sign in self.signs]
        words = [f"imports {', '.join(self.frameworks)}"] if self.frameworks else []
        return "; ".join([*words, *([f"has {', '.join(shown)}"] if shown else [])]) or "as named"

    def _follow(self) -> None:
        pending = [self.script]
        while pending and len(self.files) < MOST_MODULES:
            file = pending.pop(0)
            read = source.read(self.root / file)
            if file in self.files or read is None:
                continue
            self.files[file] = read
            for statement in read.imports:
                pending += self._relative(file, statement) if statement.level else self._absolute(statement)

    def _relative(self, file: str, statement: Import) -> list[str]:
        folder = _parent(file)
        for _ in range(statement.level - 1):
            folder = _parent(folder)
        return self._files(folder, statement)

    def _absolute(self, statement: Import) -> list[str]:
        first = statement.module.partition(".")[0]
        place = self._place(first)
        if place is None:
            return []
        if place != _parent(self.script):
            self.places.setdefault(first, place)
        return self._files(place, statement)

    def _place(self, first: str) -> str | None:
        """Return the folder in which a first name of imports is a module of the repository."""
        folder = _parent(self.script)
        if self._is_module(f"{folder}/{first}"):
            return folder
        if _is_installed(first, str(self.root)):
            return None
        above = [str(parent) for parent in PurePosixPath(folder).parents] if folder else []
        places = [place if place != "." else "" for place in (*above, *USUAL_PLACES)]
        return next((place for place in places if self._is_module(f"{place}/{first}")), None)

    def _is_module(self, stem: str) -> bool:
        path = self.root / stem.strip("/")
        if is_file(path.with_name(f"{path.name}.py")) or is_file(path / "__init__.py"):
            return True
        return is_folder(path) and path.name.isidentifier() and _has_python(path)

    def _files(self, place: str, statement: Import) -> list[str]:
        """List the files of an import: those of the packages that its module is in, the module, what is taken of it."""
        parts = [part for part in statement.module.split(".") if part]
        stems = ["/".join([*filter(None, [place]), *parts[:count]]) for count in range(len(parts) + 1)]
        stems += [f"{stems[-1]}/{name}".strip("/") for name in statement.names if name.isidentifier()]
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
    """Return whether a module is part of Python, or installed outside of a folder; it is not imported."""
    if name in sys.stdlib_module_names:
        return True
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return False
    if found is None or found.origin is None:  # none, or a folder without __init__.py
        return False
    return not Path(found.origin).is_relative_to(root) or "site-packages" in found.origin


def placement(modules: Modules) -> tuple[str, tuple[str, ...]]:
    """Choose how a script is started: as the file `scripts/train.py`, or as the module `mypkg.train`.

    Returns the name of the program, and the folders that its imports are found in. RequestError if it cannot be started
    as it lies here.
    """
    folder, _, file = modules.script.rpartition("/")
    top = _top(modules, folder)
    places = {place for place in modules.places.values() if top is None or place != top}
    if top is None:
        # Bytes that are not UTF-8 are not printable.
        is_short = len(modules.script) <= LONGEST_PROGRAM and modules.script.isprintable()
        if not is_short or not re.fullmatch(PROGRAM, modules.script):
            what = "no backslash and no line break, in UTF-8: rename it"
            most = f"the path of a script has {LONGEST_PROGRAM} characters at most"
            raise RequestError(f"{one_line(modules.script)}: {most}, {what}")
        return modules.script, tuple(sorted(place or "." for place in places))
    inner = folder.removeprefix(top).strip("/")
    module = ".".join([*inner.split("/"), file.removesuffix(".py")])
    if not re.fullmatch(rf"{WORD}(\.{WORD})+", module) or len(module) > LONGEST_PROGRAM:
        wrong = f"{one_line(modules.script)} is in a package, and '{one_line(module)}' is no name of a module"
        raise RequestError(f"{wrong}: rename it")
    # torchrun puts the project's folder itself on the path of a module.
    return module, tuple(place for place in (top, *sorted(places - {top})) if place)


def _top(modules: Modules, folder: str) -> str | None:
    """Return the folder that holds the package which a script is part of, None if it can be started as a file."""
    imports = modules.files[modules.script].imports
    level = max((statement.level for statement in imports), default=0)
    parts = folder.split("/") if folder else []
    if level > len(parts):
        above = one_line(modules.root.parent)
        name = one_line(f"{modules.root.name}/{modules.script}")
        raise RequestError(f"{name} imports from its package, which begins above: run `runner init {name}` in {above}")
    if level:
        outside = len(parts)
        while outside and is_file(modules.root.joinpath(*parts[:outside], "__init__.py")):
            outside -= 1
        return "/".join(parts[: min(outside, len(parts) - level)])  # a package may do without __init__.py
    # It imports its own package by its full name, for example `from mypkg.data import ...` in src/mypkg/train.py.
    for statement in imports:
        first = statement.module.partition(".")[0]
        place = modules.places.get(first)
        if place is not None and f"{folder}/".startswith(f"{place}/{first}/".lstrip("/")):
            return place
    return None
