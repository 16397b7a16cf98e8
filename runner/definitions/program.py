"""Find training programs, and write their command lines."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.definitions.args import REST
from runner.definitions.environment import is_variable
from runner.definitions.settings import PACKAGE, Settings, settings_of
from runner.definitions.sources import read_imported
from trainkit.sources import folders_of, read_sources

PREPARE = "prepare"
"""The module of a family that fetches the family's data and trains nothing."""
_SCRIPT = ".py"
ALONE = "trainkit.alone"
"""The module that hides torchrun from a program that starts its own processes."""
_DECLARES = {
    "scaling": re.compile(rb"[\"']--scaling[\"']|\badd_epochs\b"),
    "device": re.compile(rb"[\"']--device[\"']|\bprogram_parser\b"),
}
"""Arguments that a module of a family gets if its source declares them, itself or through `trainkit.arguments`."""


@dataclass(frozen=True)
class Program:
    """A training program: a module of a family, another module of the project, or a script.

    `declares` lists which of the arguments `scaling` and `device` a module of a family accepts. For other programs,
    `files` lists the source files, and `search` lists further folders of modules, both as paths from the project's
    folder. If `alone`, the program starts its own processes.
    """

    name: str
    path: Path
    declares: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    alone: bool = False

    @property
    def words(self) -> list[str]:
        """The words of torchrun's command line that name the program."""
        before = ["-m", ALONE] if self.alone else []
        if self.name.endswith(_SCRIPT):
            return [*before, as_path(self.name)]
        return [*before, "-m", self.name if self.files else f"{PACKAGE}.{self.name}"]

    def sources(self, root: Path) -> dict[str, bytes]:
        """Return the content of the program's source files, by path from the project's folder."""
        if not self.files:
            return read_sources(root, self.name)
        return {name: (root / name).read_bytes() for name in self.files}

    @property
    def folders(self) -> list[str]:
        """The folders that an image has to contain without changes, as paths from the project's folder."""
        if not self.files:
            return folders_of(self.name)
        return sorted({"/".join(name.split("/")[:2]) for name in self.files if name.startswith(f"{PACKAGE}/")})

    @property
    def places(self) -> list[str]:
        """The project's top-level folders and files that contain sources of the program, and that no image contains."""
        folders = {name.partition("/")[0] if "/" in name else name for name in self.files}
        return sorted(folders - {PACKAGE})

    def argv(self, args: dict[str, Any]) -> list[str]:
        """Return args as words, in order. None and False give no word, True gives a flag, and a list repeats its key.

        For a module of a family, `_` in a key becomes `-`. Other programs get keys as the definition spells them.
        """
        own = ((key, value) for key, value in args.items() if not is_variable(key))
        return [word for key, value in own for word in self._words(key, value)]

    def _words(self, key: str, value: Any) -> list[str]:
        if isinstance(value, list):
            return [word for item in value for word in self._words(key, item)]
        if value is None:
            return []
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if key == REST:
            return [text]
        if key.endswith("="):
            return [key + text]
        name = key if key.startswith("-") else f"--{key if self.files else key.replace('_', '-')}"
        if isinstance(value, bool):
            return [name] if value else []
        # Parsers take a separate word that begins with a hyphen, such as -1e-3, for an option.
        return [f"{name}={text}"] if text.startswith("-") else [name, text]


def as_path(script: str) -> str:
    """Return a script's path in a form that no program takes for an option: `./-train.py`."""
    return f"./{script}" if script.startswith("-") else script


def find(root: Path, name: str, settings: Settings | None = None) -> Program:
    """Find the program that a definition names. Raises RequestError if there is none.

    A dotted name is a module below `experiments/`, `<family>.<program>`. If there is none, it is any module of the
    project. A name that ends in `.py` is a script's path from the project's folder. If `settings` are given, they
    replace those in the project's files.
    """
    settings = settings or settings_of(root)
    if name.endswith(_SCRIPT):
        if ".." in name.split("/") or not (root / name).is_file():
            last = name.rpartition("/")[2]
            beside = [str(path.relative_to(root)) for path in (root / PACKAGE).rglob("*.py") if path.name == last]
            hint = f"; a path is from the project's folder: {beside[0]}" if beside else ""
            raise RequestError(f"program '{one_line(name)}' does not exist ({one_line(root / name)}){hint}")
        return _elsewhere(settings, name, root / name)
    own = root.joinpath(PACKAGE, *name.split(".")).with_suffix(".py")
    if os.path.lexists(own):
        texts = read_imported(root, own).values()
        return Program(name, own, tuple(key for key, sign in _DECLARES.items() if any(map(sign.search, texts))))
    for place in (root, *(root / folder for folder in settings.path)):
        base = place.joinpath(*name.split("."))
        for path in (base.with_suffix(".py"), base / "__main__.py"):
            if path.is_file():
                return _elsewhere(settings, name, path)
    raise RequestError(f"program '{name}' does not exist ({own}){did_you_mean(name, names(root))}")


def _elsewhere(settings: Settings, name: str, path: Path) -> Program:
    root, search = settings.root, tuple(settings.root / folder for folder in settings.path)
    own = [file for file in read_imported(root, path, search) if file.is_relative_to(root)]
    files = {str(file.relative_to(root)) for file in (*own, *settings.code_files())}
    return Program(name, path, (), tuple(sorted(files)), settings.path)


def names(root: Path) -> list[str]:
    """List every module below `experiments/` that can be run, except `prepare`."""
    folder = root / PACKAGE
    files = (path for path in sorted(folder.rglob("*.py")) if path.is_file() and not path.name.startswith("_"))
    runnable = (path for path in files if path.stem != PREPARE and b"__main__" in path.read_bytes())
    return [".".join(path.relative_to(folder).with_suffix("").parts) for path in runnable]
