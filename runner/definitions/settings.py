"""The project: where its root is, and what `[tool.runner]` of its pyproject.toml, or its runner.toml, says."""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.core.yaml_reader import Document
from runner.definitions.gate import decode

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = "experiments"
"""The folder of definitions, unless the settings name another one."""
DOCKERFILE = "Dockerfile"
"""The file that images are built from, unless the settings name another one."""
OWN_FILE = "runner.toml"
SHARED_FILE = "pyproject.toml"
_DEEPEST = 5
"""How many names a place in the settings has: `tool.runner.with.compose.memory`."""
_INNER = Meta(
    pattern=r"^(?!/|~|(.*/)?\.\.(/|$))[^\\]*\S[^\\]*$", title="a path from the project's folder that lies in it"
)
_IMAGE = Meta(
    pattern=r"^(?=.{1,200}$)([a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*$",
    title="the name of an image without its tag, for example registry.lab/team/train",
)


class Table(msgspec.Struct, forbid_unknown_fields=True):
    """The settings as their file has them."""

    definitions: Annotated[str, _INNER] = PACKAGE
    path: list[Annotated[str, _INNER]] = []
    image: Annotated[str, _IMAGE] | None = None
    dockerfile: Annotated[str, _INNER] = DOCKERFILE
    code: list[Annotated[str, _INNER]] = []
    options: dict[str, dict[str, str | int | float | bool]] = msgspec.field(name="with", default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """A project and its settings; without a file that says otherwise, those of this repository.

    Args:
        root: the project's folder.
        source: the file that marks the root; None for a folder that has none.
        definitions: the folder of the definitions, from the root.
        path: folders that hold import packages, for example `src`: programs find modules there.
        image: the image of containers without its tag, which is `cpu` or `gpu`; empty for the kit's own.
        dockerfile: the file that the image is built from.
        code: patterns of files that are the same code as the programs, for example `configs/**/*.yaml`.
        options: for each target, options that hold unless the command line says otherwise.
    """

    root: Path
    source: Path | None = None
    definitions: str = PACKAGE
    path: tuple[str, ...] = ()
    image: str = ""
    dockerfile: str = DOCKERFILE
    code: tuple[str, ...] = ()
    options: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the definitions."""
        return self.root / self.definitions

    def words_for(self, target: str, given: list[str]) -> list[str]:
        """Return `name=value` words for a target: those that are given, then those of the settings."""
        named = {word.partition("=")[0].replace("-", "_") for word in given}
        chosen = self.options.get(target, {})
        return given + [f"{name}={value}" for name, value in chosen.items() if name not in named]

    def code_files(self) -> list[Path]:
        """List the files that the patterns of `code` match; RequestError for a pattern that matches none."""
        found: list[Path] = []
        for pattern in self.code:
            try:
                matched = [path for path in self.root.glob(pattern) if path.is_file()]
            except (ValueError, IndexError, NotImplementedError):  # each version of Python refuses others, in its way
                matched = []
            if not matched:
                place = f"{one_line(str(self.source))}: code '{one_line(pattern)}'"
                raise RequestError(f"{place} matches no file; a pattern is, for example, configs/**/*.yaml")
            found += matched
        return found


def nearest(start: Path) -> Settings | None:
    """Find the nearest folder, from `start` upwards, whose files say that it is a project of the runner.

    It has a `runner.toml`, or a `pyproject.toml` with the table `[tool.runner]`.
    """
    found = (_read(folder) for folder in (start, *start.parents))
    return next((settings for settings in found if settings is not None), None)


def find_project(start: Path) -> Settings:
    """Find the project that a folder is in; RequestError if it is in none."""
    if (settings := nearest(start)) is not None:
        return settings
    raise RequestError(
        f"{one_line(start)}: neither this folder nor one above it has {OWN_FILE}, or [tool.runner] in {SHARED_FILE}:"
        " go to the project's folder, or make it one: runner init"
    )


def settings_of(root: Path) -> Settings:
    """Read the settings of a project; the defaults if it has none."""
    return _read(root) or Settings(root)


def _read(folder: Path) -> Settings | None:
    own, shared = folder / OWN_FILE, folder / SHARED_FILE
    if own.is_file():
        return _settings(folder, own, _parse(own), ())
    if shared.is_file() and "runner" in read_text(shared):
        document = _parse(shared)
        tool = document.values.get("tool")
        if isinstance(tool, dict) and "runner" in tool:
            return _settings(folder, shared, document, ("tool", "runner"))
    return None


def read_text(path: Path) -> str:
    """Read a text of the project, with its byte order mark; RequestError if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise RequestError(f"{one_line(path)}: cannot be read: {why}") from None


def _parse(path: Path) -> Document:
    text = read_text(path).removeprefix("\ufeff")
    try:
        return Document(str(path), tomllib.loads(text), _lines(text))
    except ValueError as error:
        raise RequestError(f"{one_line(path)}: not TOML: {one_line(error)}") from None


def _lines(text: str) -> dict[tuple[str | int, ...], int]:
    """Return the line on which each table and each key of a text in TOML begins."""
    lines: dict[tuple[str | int, ...], int] = {}
    table: list[str] = []
    for number, row in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+([^\]]+)\]", row)  # [tool.runner.with.compose]
        found = header or re.match(r"\s*([^=#\[]+)=", row)  # memory = "8gb"
        if found is None:
            continue
        names = [name.strip(" \t\"'") for name in found[1].split(".")]
        path = names if header else [*table, *names]
        table = names if header else table
        for depth in range(1, min(len(path), _DEEPEST) + 1):
            lines.setdefault(tuple(path[:depth]), number)
    return lines


def _settings(root: Path, source: Path, document: Document, place: tuple[str, ...]) -> Settings:
    values = document.values
    for step in place:
        values = values[step]
    if isinstance(values, dict):  # one path may stand for a list
        values |= {key: [values[key]] for key in ("path", "code") if isinstance(values.get(key), str)}
    table: Table = decode(document, Table, values, *place)
    return Settings(
        root,
        source,
        _tidy(table.definitions),
        tuple(map(_tidy, table.path)),
        table.image or "",
        _tidy(table.dockerfile),
        tuple(map(_tidy, table.code)),
        {target: {name: _word(value) for name, value in given.items()} for target, given in table.options.items()},
    )


def _tidy(path: str) -> str:
    return path.removeprefix("./").rstrip("/") or "."


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
