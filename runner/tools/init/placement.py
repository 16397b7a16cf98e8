"""How a script is started: as a file, or as a module of a package, and from which folders it imports."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.fields import PROGRAM, WORD
from runner.tools.init.modules import Modules
from trainkit.files import is_file


@dataclass(frozen=True)
class Placement:
    """What a definition and the settings say of it: `mypkg.train` and `src`, or `scripts/train.py`."""

    program: str
    path: tuple[str, ...] = ()


def placement(modules: Modules) -> Placement:
    """Choose how a script is started; RequestError if it cannot be, as it lies here."""
    folder, _, file = modules.script.rpartition("/")
    top = _top(modules, folder)
    places = {place for name, place in modules.places.items() if top is None or place != top}
    if top is None:
        _check_path(modules.script)
        return Placement(modules.script, tuple(sorted(place or "." for place in places)))
    inner = folder.removeprefix(top).strip("/")
    dotted = ".".join([*inner.split("/"), file.removesuffix(".py")])
    if not re.fullmatch(rf"{WORD}(\.{WORD})+", dotted) or len(dotted) > PROGRAM.most:
        raise RequestError(
            f"{one_line(modules.script)} is in a package, and '{one_line(dotted)}' is no name of a module: rename it"
        )
    # torchrun puts the project's folder itself on the path of a module.
    path = [place for place in (top, *sorted(places - {top})) if place]
    return Placement(dotted, tuple(path))


def _top(modules: Modules, folder: str) -> str | None:
    """Return the folder that holds the package which a script is part of, None if it can be started as a file."""
    own = modules.own
    level = max((one.level for one in own.imports), default=0) if own else 0
    parts = folder.split("/") if folder else []
    if level > len(parts):
        _refuse(modules)
    if level:
        above = len(parts)
        while above and is_file(modules.root.joinpath(*parts[:above], "__init__.py")):
            above -= 1
        return "/".join(parts[: min(above, len(parts) - level)])  # a package may do without __init__.py
    # It imports its own package by its full name, for example `from mypkg.data import ...` in src/mypkg/train.py.
    for one in own.imports if own else ():
        first = one.module.partition(".")[0]
        place = modules.places.get(first)
        if place is not None and f"{folder}/".startswith(f"{place}/{first}/".lstrip("/")):
            return place
    return None


def _refuse(modules: Modules) -> None:
    above = modules.root.parent
    name = one_line(f"{modules.root.name}/{modules.script}")
    raise RequestError(
        f"{name} imports from its package, which begins above: run `runner init {name}` in {one_line(above)}"
    )


def _check_path(script: str) -> None:
    """Refuse the name of a script that no definition can hold."""
    try:
        script.encode()
    except UnicodeEncodeError:
        raise RequestError(f"the name of {one_line(script)} is not UTF-8: rename it") from None
    if not re.fullmatch(PROGRAM.pattern, script) or len(script) > PROGRAM.most:
        what = f"the path of a script has {PROGRAM.most} characters at most, no backslash and no line break"
        raise RequestError(f"{one_line(script)}: {what}: rename it")
