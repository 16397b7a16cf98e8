"""The arguments that a program takes, read from its source without running it."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from runner.core.errors import RequestError
from runner.definitions.imports import LIBRARY, imported
from trainkit.files import read_file

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_SOURCE = 1_000_000
MOST_SOURCES, MOST_BYTES = 2_000, 10_000_000
"""How much of a project is followed from one program by its imports."""
_FLAGS = ("store_true", "store_false")
_SWITCH = "BooleanOptionalAction"
_NUMBERS = ("int", "float")
_AT_LEAST = "at_least"
"""The type of whole numbers with a lower bound, of `trainkit.arguments`."""


class Option(NamedTuple):
    """One argument as its program declares it.

    The kind is `int`, `float`, `flag` (it stands there or it does not), `switch` (`--amp`, `--no-amp`), or `value`
    for anything else; choices are empty if any value is taken, or if they cannot be read from the source. Without a
    hyphen the spelling is the name of a positional argument.
    """

    spelling: str
    kind: str = "value"
    choices: tuple[object, ...] = ()
    least: int | None = None

    def refuses(self, value: object) -> str | None:
        """Return what the program takes, if this value is something else."""
        is_bool = isinstance(value, bool)
        if self.kind in ("flag", "switch"):
            return None if is_bool else "true or false"
        if self.kind == "int":
            least = "" if self.least is None else f", at least {self.least}"
            if not isinstance(value, int) or is_bool:
                return f"a whole number{least}"
            return f"a whole number{least}" if self.least is not None and value < self.least else None
        if self.kind == "float":
            return None if isinstance(value, int | float) and not is_bool else "a number"
        if self.choices and value not in self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        return None


class _Part(NamedTuple):
    """What a piece of a source file says: the options that it declares, and the names and imports that it holds."""

    options: dict[str, Option]
    names: set[str]
    imports: list[ast.Import | ast.ImportFrom]


class _Source(NamedTuple):
    """What a source file says in all, and its functions."""

    whole: _Part
    functions: dict[str, ast.FunctionDef]


def read_options(root: Path, path: Path, search: tuple[Path, ...] = ()) -> dict[str, Option]:
    """Collect `add_argument("--key", ...)` from a source file and from what it imports.

    Of the project's own modules every call counts, of the library's those in functions that are called. Raises
    RequestError, with the line, for a source that cannot be read as Python.
    """
    options: dict[str, Option] = {}
    for source in own_sources(root, path, search):
        found = _read(source)
        options.update(found.whole.options)
        for file in _imported(root, path, source, found, search):
            if file.parent.name == LIBRARY:
                options.update(_declared_by_library(_read(file), found.whole.names))
    return options


def own_sources(root: Path, path: Path, search: tuple[Path, ...] = ()) -> list[Path]:
    """List a source file of a project and the project's files that it imports, the library left out."""
    seen: dict[Path, None] = {}
    pending, left = [path], MOST_BYTES
    while pending and left > 0 and len(seen) < MOST_SOURCES:
        source = pending.pop()
        if source in seen:
            continue
        seen[source] = None
        left -= len(_text(source))
        found = _imported(root, path, source, _read(source), search)
        pending += [file for file in found if file.parent.name != LIBRARY]
    return list(seen)


def _imported(root: Path, program: Path, source: Path, read: _Source, search: tuple[Path, ...]) -> list[Path]:
    found = (file for node in read.whole.imports for file in imported(root, program, source, node, search))
    return list(dict.fromkeys(found))


def _read(source: Path) -> _Source:
    try:
        return _look(_text(source), str(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        msg = f"{source}:{line}: the program cannot be read as Python: {str(error) or 'nested too deep'}"
        raise RequestError(msg) from None


def _text(source: Path) -> bytes:
    try:
        return read_file(source, LARGEST_SOURCE)
    except (OSError, ValueError) as error:
        msg = f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}"
        raise RequestError(msg) from None


@lru_cache(maxsize=256)
def _look(text: bytes, name: str) -> _Source:
    """Parse a source file; a definition is read more than once, and its programs share most of what they import."""
    tree = ast.parse(text.decode(), name)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    return _Source(_part(tree), functions)


@lru_cache(maxsize=256)
def _part(tree: ast.AST) -> _Part:
    options: dict[str, Option] = {}
    names, imports = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Call):
            options.update(_declared(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
    return _Part(options, names, imports)


def _declared_by_library(module: _Source, called: set[str]) -> dict[str, Option]:
    """Collect what those functions of a module declare that are called, and what they call themselves."""
    options: dict[str, Option] = {}
    pending, seen = called & module.functions.keys(), set()
    while pending:
        name = pending.pop()
        seen.add(name)
        part = _part(module.functions[name])
        options.update(part.options)
        pending |= (part.names & module.functions.keys()) - seen
    return options


def _declared(call: ast.Call) -> dict[str, Option]:
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"):
        return {}
    spellings = [word.value for word in call.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    long = [word for word in spellings if word.startswith("--")]
    if not long and (not spellings or spellings[0].startswith("-")):
        return {}
    given = {word.arg: word.value for word in call.keywords}
    action = ast.unparse(given["action"]).strip("'\"") if "action" in given else ""
    kind, least = _type(given.get("type")) if "nargs" not in given else ("value", None)
    kind = "switch" if action.endswith(_SWITCH) else "flag" if action.endswith(_FLAGS) else kind
    choices = _literals(given.get("choices"))
    spelling = long[0] if long else spellings[0]
    return {spelling.removeprefix("--").replace("-", "_"): Option(spelling, kind, choices, least)}


def _type(node: ast.expr | None) -> tuple[str, int | None]:
    """Return the kind and the lower bound that an argument's type gives it."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == _AT_LEAST:
        bound = node.args[0] if node.args else None
        return "int", bound.value if isinstance(bound, ast.Constant) and isinstance(bound.value, int) else None
    name = ast.unparse(node) if node else ""
    return name if name in _NUMBERS else "value", None


def _literals(node: ast.expr | None) -> tuple[object, ...]:
    """Return the choices that stand in the source as they are; none if they are computed."""
    try:
        values = ast.literal_eval(node) if node else ()
    except ValueError:
        return ()
    return tuple(values) if isinstance(values, list | tuple | set) else ()
