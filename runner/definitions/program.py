"""Programs: where they are, and how their command line is written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import shown
from runner.definitions.options import LARGEST_SOURCE, PACKAGE, Option, read_options
from trainkit.files import read_file

if TYPE_CHECKING:
    from pathlib import Path

PREPARE = "prepare"
"""The module of a family that brings its data; it trains nothing."""


@dataclass(frozen=True)
class Program:
    """A training script, `experiments/<family>/<program>.py`.

    `options` maps an argument's key (`batch_size`) to what the source declares of it. It is empty if the source
    declares none that can be read, and then every argument is passed on as `--key value`.
    """

    name: str
    path: Path
    options: dict[str, Option]

    @property
    def module(self) -> str:
        """Name for `torchrun -m`."""
        return f"{PACKAGE}.{self.name}"

    def check(self, key: str, value: object = None) -> None:
        """Raise RequestError for an argument that the program does not declare, or a flag that is not true or false."""
        if self.options and key not in self.options:
            msg = f"program {self.name} takes no arg '{key}'{did_you_mean(key, sorted(self.options))}"
            raise RequestError(msg)
        option = self._option(key)
        if value is not None and (wrong := option.refuses(value)):
            msg = f"{option.spelling} of program {self.name} is {wrong}, not {shown(value)}"
            raise RequestError(msg)

    def argv(self, args: dict[str, object]) -> list[str]:
        """Spell args as the program's command line; a null is left to the program's own default."""
        words: list[str] = []
        for key, value in args.items():
            option = self._option(key)
            if value is None:
                continue
            if option.kind not in ("flag", "switch"):
                text = _spell(value)
                # argparse takes a word that begins with a hyphen, as -1e-3, for an option of its own.
                words += [f"{option.spelling}={text}"] if text.startswith("-") else [option.spelling, text]
            elif value:
                words.append(option.spelling)
            elif option.kind == "switch":
                words.append(f"--no-{option.spelling[2:]}")
        return words

    def _option(self, key: str) -> Option:
        return self.options.get(key, Option(f"--{key}"))


def find(root: Path, name: str) -> Program:
    """Find the program `<family>.<program>` below the project's folder; RequestError if there is none."""
    path = root.joinpath(PACKAGE, *name.split(".")).with_suffix(".py")
    if not os.path.lexists(path):
        msg = f"program '{name}' does not exist ({path}){did_you_mean(name, names(root))}"
        raise RequestError(msg)
    return Program(name, path, read_options(root, path))


def names(root: Path) -> list[str]:
    """List every program below the project's folder: the modules that can be run."""
    folder = root / PACKAGE
    runnable = (path for path in sorted(folder.rglob("*.py")) if not path.name.startswith("_") and _can_be_run(path))
    return [".".join(path.relative_to(folder).with_suffix("").parts) for path in runnable]


def _can_be_run(path: Path) -> bool:
    try:
        return path.stem != PREPARE and b"__main__" in read_file(path, LARGEST_SOURCE)
    except OSError:
        return False


def _spell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
