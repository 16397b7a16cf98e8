"""The texts that make a folder a project: `[tool.runner]` in its pyproject.toml, or runner.toml; and .gitignore."""

import json
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.settings import OWN_FILE, PACKAGE, SHARED_FILE, Settings, parse_toml, read_text
from trainkit.files import is_file

RESULTS = "results/"
REPRODUCED = "reproduced/"
_ABOUT = "# A project of the runner; its settings are definitions, path, image, dockerfile, code, with.<target>."


def changed_settings(settings: Settings) -> tuple[Path, str | None, str] | None:
    """Return the file to write, its text before (None if there is none) and after; None if it says all already."""
    if settings.source is not None:
        return None
    values: dict[str, Any] = {"definitions": settings.definitions} if settings.definitions != PACKAGE else {}
    values |= {"path": list(settings.path)} if settings.path else {}
    shared = settings.root / SHARED_FILE
    if is_file(shared):
        before = read_text(shared)
        after = appended(before, f"\n[tool.runner]\n{_ABOUT}\n{_rows(values)}")
        if _table(after) == values:  # a table `tool` in one line cannot be added to
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


def _table(text: str) -> object:
    """Return `[tool.runner]` of a text in TOML; None if there is none."""
    try:
        return parse_toml(text.removeprefix("\ufeff"))["tool"]["runner"]
    except (ValueError, KeyError, TypeError):
        return None
