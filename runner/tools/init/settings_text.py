"""The texts that make a folder a project: `[tool.runner]` in its pyproject.toml, or runner.toml; and .gitignore."""

import json
import re
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.settings import (
    DOCKERFILE,
    LARGEST_BYTES,
    OWN_FILE,
    PACKAGE,
    SHARED_FILE,
    Settings,
    parse_toml,
    read_text,
)
from trainkit.files import is_file, read_file

RESULTS = "results/"
REPRODUCED = "reproduced/"
_ABOUT = "# A project of the runner; its settings are definitions, path, image, dockerfile, code, with.<target>."


def changed_settings(settings: Settings) -> tuple[Path, str | None, str] | None:
    """Return the file to write, its text before (None if there is none) and after; None if it says all already."""
    if settings.source is not None:
        return None
    defaults = {"definitions": PACKAGE, "path": [], "image": "", "dockerfile": DOCKERFILE}
    given: dict[str, Any] = {**{key: getattr(settings, key) for key in defaults}, "path": list(settings.path)}
    values = {key: value for key, value in given.items() if value != defaults[key]}
    shared = settings.root / SHARED_FILE
    if is_file(shared):
        before = read_text(shared)
        after = appended(before, f"\n[tool.runner]\n{_ABOUT}\n{_rows(values)}")
        if _at(after, ("tool", "runner")) == values:  # a table `tool` in one line cannot be added to
            return shared, before, after
    return settings.root / OWN_FILE, None, f"{_ABOUT}\n{_rows(values)}"


def added_settings(settings: Settings, new: dict[str, str]) -> tuple[Path, str, str]:
    """Return the file of a project's settings, its text, and its text with further keys.

    They go in front of the others: what comes later could belong to another table. RequestError if the file says these
    things in a way that cannot be added to, for example all in one line.
    """
    path = settings.source
    assert path is not None  # noqa: S101 - for the type checker
    before = read_text(path)
    end = "\r\n" if "\r\n" in before else "\n"
    rows = _rows(new).replace("\n", end)
    mark = "\ufeff" if before.startswith("\ufeff") else ""
    if path.name == OWN_FILE:
        after = mark + rows + before.removeprefix(mark)
    else:
        after = re.sub(
            r"(?m)^\s*\[tool\.runner\][^\n]*\n?", lambda found: found[0].rstrip() + end + rows, before, count=1
        )
    place = () if path.name == OWN_FILE else ("tool", "runner")
    if _at(after, place) != {**new, **(_at(before, place) or {})}:
        wanted = ", ".join(_rows(new).splitlines())
        raise RequestError(f"{one_line(path)}: its settings cannot be added to: write {wanted} there first")
    return path, before, after


def require_path(settings: Settings, path: tuple[str, ...]) -> None:
    """Refuse settings of a person's own that leave out a folder which the script imports from."""
    known = {*settings.path, *(("",) if "." in settings.path else ())}
    if missing := [place for place in path if place not in known]:
        wanted = json.dumps([*settings.path, *missing], ensure_ascii=False)
        msg = f"{settings.source}: the script imports from {', '.join(missing)}/: write path = {wanted} there first"
        raise RequestError(one_line(msg))


def ignoring(before: str | None) -> str:
    """Return the text of .gitignore with the lines for results, and for runs that are made again."""
    rows = f"{RESULTS}\n{REPRODUCED}\n"
    return appended(before, rows) if before else rows


def appended(before: str, more: str) -> str:
    """Append lines to a text, with the line ends that it has."""
    end = "\r\n" if "\r\n" in before else "\n"
    gap = end if before and not before.endswith("\n") else ""
    return before + gap + more.replace("\n", end)


def _rows(values: dict[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file in TOML; empty if it cannot be read."""
    try:
        return parse_toml(read_file(path, LARGEST_BYTES).decode("utf-8-sig"))
    except (OSError, ValueError):
        return {}


def _at(text: str, place: tuple[str, ...]) -> dict[str, Any] | None:
    """Return a table of a text in TOML; None if there is none."""
    try:
        found: Any = parse_toml(text.removeprefix("\ufeff"))
        for step in place:
            found = found[step]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) else None
