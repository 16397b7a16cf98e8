"""Programs: where they are, and how their command line is written."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line, shown
from runner.definitions.options import LARGEST_SOURCE, Interface, Option, read_code, read_interface
from runner.definitions.settings import PACKAGE, Settings, settings_of
from trainkit.files import read_file
from trainkit.sources import folders_of, read_sources

PREPARE = "prepare"
"""The module of a family that brings its data; it trains nothing."""
INPUTS = "inputs"
"""The module of a family that hashes what its programs read: it prints one JSON object of `data_sha256` and others."""
_SCRIPT = ".py"
ALONE = "trainkit.alone"
"""The module that starts a program as if torchrun were not there."""


@dataclass(frozen=True)
class Program:
    """A training program: a module of a family, another module of the project, or a script.

    `interface` is what its source says of its arguments. `files` are the sources of a program that belongs to no
    family, as paths from the project's folder, and `search` the folders in which its modules are found, besides the
    project's. One that is `alone` starts its processes itself.
    """

    name: str
    path: Path
    interface: Interface
    files: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    alone: bool = False

    @property
    def options(self) -> dict[str, Option]:
        """The arguments that its source shows, by their keys (`batch_size`)."""
        return self.interface.options

    @property
    def words(self) -> list[str]:
        """Name it for torchrun."""
        before = ["-m", ALONE] if self.alone else []
        if self.name.endswith(_SCRIPT):
            return [*before, as_path(self.name)]
        return [*before, "-m", self.name if self.files else f"{PACKAGE}.{self.name}"]

    def sources(self, root: Path) -> dict[str, bytes]:
        """Read the Python files behind it by their paths from the project's folder: with those it is the same code."""
        if not self.files:
            return read_sources(root, self.name)
        return {name: read_file(root / name, LARGEST_SOURCE) for name in self.files}

    @property
    def folders(self) -> list[str]:
        """List the folders that an image has to hold as they are here, from the project's folder."""
        if not self.files:
            return folders_of(self.name)
        return sorted({"/".join(name.split("/")[:2]) for name in self.files if name.startswith(f"{PACKAGE}/")})

    @property
    def places(self) -> list[str]:
        """List the folders and files that hold its sources, as far as no image has them: paths from the project."""
        folders = {name.partition("/")[0] if "/" in name else name for name in self.files}
        return sorted(folders - {PACKAGE})

    def check(self, key: str, value: object = None) -> None:
        """Raise RequestError for an argument that the program does not take, or a value that it would refuse."""
        if not self.interface.is_open and key not in self.options:
            known = did_you_mean(key, sorted(self.options)) or "; its source reads none"
            raise RequestError(f"program {self.name} takes no arg '{key}'{known}")
        option = self.interface.option(key)
        if value is not None and (wrong := option.refuses(value)):
            raise RequestError(f"{option.spelling} of program {self.name} is {wrong}, not {shown(value)}")

    def of_subcommand(self, args: dict[str, Any]) -> "Program":
        """Return the program with only the options of the subcommand that args name."""
        return replace(self, interface=self.interface.of_subcommand(args))

    def argv(self, args: dict[str, object]) -> list[str]:
        """Spell args as the program's command line; a null is left to the program's own default."""
        given = {key: (self.interface.option(key), value) for key, value in args.items() if value is not None}
        named = [(option.depth, option.words(value)) for option, value in given.values() if not option.positional]
        if self.interface.style.assigns:  # argparse, which Hydra asks, takes no flag between two settings
            named.sort(key=lambda pair: not "".join(pair[1]).startswith("-"))
        # The order of the positional ones is that of the source.
        places = [given[key] for key in self.options if key in given]
        alone = [(option.depth, option.words(value)) for option, value in places if option.positional]
        line: list[str] = []
        for depth in (0, 1, 2):
            line += [word for at, words in named for word in words if at == depth]
            values = [word for at, words in alone for word in words if at == depth]
            # A value that begins with a hyphen is no option behind two of them.
            line += ["--", *values] if any(word.startswith("-") for word in values) else values
        return line


def as_path(script: str) -> str:
    """Write the path of a script so that no command line takes it for an option: `./-train.py`."""
    return f"./{script}" if script.startswith("-") else script


def find(root: Path, name: str, settings: Settings | None = None) -> Program:
    """Find the program of a definition; RequestError if there is none.

    `<family>.<program>` is a module below `experiments/`; if there is none, any module of the project. A name that ends
    in `.py` is a script, by its path from the project's folder. The settings are those of the project's files, unless
    others are given.
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
        return Program(name, own, read_interface(root, own))
    for place in (root, *(root / folder for folder in settings.path)):
        base = place.joinpath(*name.split("."))
        for path in (base.with_suffix(".py"), base / "__main__.py"):
            if path.is_file():
                return _elsewhere(settings, name, path)
    raise RequestError(f"program '{name}' does not exist ({own}){did_you_mean(name, names(root))}")


def _elsewhere(settings: Settings, name: str, path: Path) -> Program:
    root, search = settings.root, tuple(settings.root / folder for folder in settings.path)
    own = [source.path for source in read_code(root, path, search).sources if source.path.is_relative_to(root)]
    files = {str(file.relative_to(root)) for file in (*own, *settings.code_files())}
    return Program(name, path, read_interface(root, path, search), tuple(sorted(files)), settings.path)


def names(root: Path) -> list[str]:
    """List every program below the project's folder: the modules that can be run."""
    folder = root / PACKAGE
    runnable = (path for path in sorted(folder.rglob("*.py")) if not path.name.startswith("_") and _can_be_run(path))
    return [".".join(path.relative_to(folder).with_suffix("").parts) for path in runnable]


def _can_be_run(path: Path) -> bool:
    try:
        return path.stem not in (PREPARE, INPUTS) and b"__main__" in read_file(path, LARGEST_SOURCE)
    except OSError:
        return False
