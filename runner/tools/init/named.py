"""The script that a person names, and the name of its experiment."""

from __future__ import annotations

import os
import re
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.fields import FIELDS, Text
from runner.tools.init import source

_GENERIC = {"main", "__main__", "run", "script", "app", "cli"}
_LONGEST = 40


def script_of(word: str, here: Path, root: Path) -> str:
    """Return a named script by its path from the project's folder; RequestError if it is none."""
    path = Path(os.path.normpath(here / word))
    name = one_line(word, 200)
    if path.suffix == ".ipynb":
        raise RequestError(
            f"{name} is a notebook, and torchrun starts scripts: save it as one with `jupyter nbconvert --to script`"
        )
    if path.suffix in (".yaml", ".yml", ".toml", ".json"):
        raise RequestError(
            f"{name} holds settings: name the script that reads it, and give it that file, as in --set config={name}"
        )
    if path.is_dir():
        main = path / "__main__.py"
        if not source.is_regular(main):
            raise RequestError(f"{name} is a folder: name a script in it, or run `runner init` there")
        path = main
    if not source.is_regular(path):
        raise RequestError(f"no script {name} here ({one_line(path)}): name one by its path")
    if path.suffix != ".py":
        raise RequestError(
            f"{name} is no Python file (its name does not end in .py): name the Python script that it starts"
        )
    if not path.is_relative_to(root):
        raise RequestError(f"{name} is not below {one_line(root)}: run `runner init` in its own repository")
    return path.relative_to(root).as_posix()


def name_of(script: str, root: Path, given: str | None) -> str:
    """Return the name of the experiment: as given, or after the script, or its folder if every script is called so."""
    field = FIELDS["name"]
    assert isinstance(field, Text)  # noqa: S101 - for the type checker
    if given is not None:
        if not re.fullmatch(field.pattern, given):
            raise RequestError(
                f"--name {one_line(given, 100)} has to be {field.meant}: for example --name {_valid(given)}"
            )
        return given
    *folders, file = script.split("/")
    stem = file.removesuffix(".py")
    if stem in _GENERIC:
        stem = next((one for one in reversed(folders) if one not in ("src", "scripts")), "")
        stem = stem or (root.name if file == "__main__.py" else file.removesuffix(".py"))
    return _valid(stem)


def _valid(word: str) -> str:
    """Make a valid name of any word."""
    name = re.sub(r"[^a-z0-9]+", "-", word.lower().encode("ascii", "ignore").decode()).strip("-")
    return name[:_LONGEST].strip("-") or "train"
