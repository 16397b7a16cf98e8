"""The texts that make a folder a project: `[tool.runner]` in its pyproject.toml, or runner.toml; and .gitignore."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.settings import LARGEST_BYTES, OWN_FILE, PACKAGE, SHARED_FILE, Settings
from trainkit.files import is_file, read_file

if TYPE_CHECKING:
    from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RESULTS = "results/"
_ABOUT = "# A project of the runner; its settings are definitions, path, image, dockerfile, code, with.<target>."


def changed_settings(settings: Settings) -> tuple[Path, str | None, str] | None:
    """Return the file to write, its text before (None if there is none) and after; None if it says all already."""
    values = _values(settings)
    if settings.source is not None:
        return None
    shared = settings.root / SHARED_FILE
    if is_file(shared):
        before = read_text(shared, LARGEST_BYTES)
        after = appended(before, f"\n[tool.runner]\n{_ABOUT}\n{_rows(values)}")
        if _says(after, values):
            return shared, before, after
    return settings.root / OWN_FILE, None, f"{_ABOUT}\n{_rows(values)}"


def require_path(settings: Settings, path: tuple[str, ...]) -> None:
    """Refuse settings of a person's own that leave out a folder which the script imports from."""
    known = {*settings.path, *(("",) if "." in settings.path else ())}
    if missing := [place for place in path if place not in known]:
        wanted = json.dumps([*settings.path, *missing], ensure_ascii=False)
        msg = f"{settings.source}: the script imports from {', '.join(missing)}/: write path = {wanted} there first"
        raise RequestError(one_line(msg))


def ignoring(before: str | None) -> str:
    """Return the text of .gitignore with the line for results."""
    return appended(before, f"{RESULTS}\n") if before else f"{RESULTS}\n"


def appended(before: str, more: str) -> str:
    """Append lines to a text, with the line ends that it has."""
    end = "\r\n" if "\r\n" in before else "\n"
    gap = end if before and not before.endswith("\n") else ""
    return before + gap + more.replace("\n", end)


def read_text(path: Path, most: int) -> str:
    """Read a text to which something is appended; RequestError if it cannot be read."""
    try:
        return read_file(path, most).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{one_line(path)}: cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}"
        raise RequestError(msg) from None


def _values(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from the defaults."""
    values: dict[str, Any] = {}
    if settings.definitions != PACKAGE:
        values["definitions"] = settings.definitions
    if settings.path:
        values["path"] = list(settings.path)
    return values


def _rows(values: dict[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())


def _says(text: str, values: dict[str, Any]) -> bool:
    """Whether a text is TOML that has these settings; a table `tool` in one line cannot be added to."""
    try:
        return bool(tomllib.loads(text.removeprefix("\ufeff"))["tool"]["runner"] == values)
    except (tomllib.TOMLDecodeError, KeyError, TypeError, RecursionError):
        return False
