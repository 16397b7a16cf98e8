"""Find a project's root, and read its settings: runner.toml, or `[tool.runner]` in pyproject.toml."""

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
"""The default folder of definitions."""
DOCKERFILE = "Dockerfile"
"""The default file that images are built from."""
OWN_FILE = "runner.toml"
SHARED_FILE = "pyproject.toml"
_DEEPEST = 5
"""The most names in a key of the settings: `tool.runner.with.compose.memory`."""
_INNER = Meta(
    pattern=r"^(?!/|~|(.*/)?\.\.(/|$))[^\\]*\S[^\\]*$", title="a path inside the project, from the project's folder"
)
_IMAGE = Meta(
    pattern=r"^(?=.{1,200}$)([a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*$",
    title="the name of an image without its tag, for example registry.lab/team/train",
)


class Table(msgspec.Struct, forbid_unknown_fields=True):
    """The settings as written in their file."""

    definitions: Annotated[str, _INNER] = PACKAGE
    path: list[Annotated[str, _INNER]] = []
    image: Annotated[str, _IMAGE] | None = None
    dockerfile: Annotated[str, _INNER] = DOCKERFILE
    code: list[Annotated[str, _INNER]] = []
    options: dict[str, dict[str, str | int | float | bool]] = msgspec.field(name="with", default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """A project and its settings. The defaults are the settings of this repository.

    Args:
        root: the project's folder.
        source: the file that marks the root, or None if there is none.
        definitions: the folder of the definitions.
        path: further folders of modules, for example `src`.
        image: the container image without its tag (`cpu` or `gpu`), or empty for the kit's own image.
        dockerfile: the file that the image is built from.
        code: patterns of further files of the code, for example `configs/**/*.yaml`.
        options: the default options of each target.
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
        """Return a target's `name=value` options: those given, then those that only the settings have."""
        named = {word.partition("=")[0].replace("-", "_") for word in given}
        chosen = self.options.get(target, {})
        return given + [f"{name}={value}" for name, value in chosen.items() if name not in named]

    def code_files(self) -> list[Path]:
        """List the files that the patterns of `code` match. Raises RequestError for a pattern without a match."""
        found: list[Path] = []
        for pattern in self.code:
            try:
                matched = [path for path in self.root.glob(pattern) if path.is_file()]
            except (ValueError, IndexError, NotImplementedError):  # versions of Python refuse different patterns
                matched = []
            if not matched:
                place = f"{one_line(str(self.source))}: code '{one_line(pattern)}'"
                raise RequestError(f"{place} matches no file; a pattern is, for example, configs/**/*.yaml")
            found += matched
        return found


def nearest(start: Path) -> Settings | None:
    """Return the settings of the nearest project at or above the folder `start`, or None if there is none.

    A project has a `runner.toml`, or a `pyproject.toml` with the table `[tool.runner]`.
    """
    found = (_read(folder) for folder in (start, *start.parents))
    return next((settings for settings in found if settings is not None), None)


def find_project(start: Path) -> Settings:
    """Return the settings of the project that a folder is in. Raises RequestError if the folder is in none."""
    if (settings := nearest(start)) is not None:
        return settings
    raise RequestError(
        f"{one_line(start)}: not in a project: no {OWN_FILE}, and no [tool.runner] in {SHARED_FILE}, here or above: go"
        " to the project's folder, or make this folder a project: runner init"
    )


def settings_of(root: Path) -> Settings:
    """Return the settings of a project, or the defaults if it has none."""
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
    """Read a text file, keeping a byte order mark. Raises RequestError if the file is unreadable or not UTF-8."""
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
    if isinstance(values, dict):  # a single path may stand for a list
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
