"""The source files behind a program: parsed, never run, and followed by their imports."""

import ast
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import trainkit
from runner.core.errors import RequestError, reason_of
from runner.core.text import one_line
from runner.core.values import LARGEST_WHOLE
from trainkit.files import read_file

LIBRARY = "trainkit"

LARGEST_SOURCE = 1_000_000
MOST_SOURCES, MOST_BYTES = 2_000, 10_000_000
"""How much of a project is followed from one program by its imports."""
LONGEST_TEXT, MOST_CHOICES = 10_000, 1_000
"""How long a text that stands in a source may be, and a list."""
UNREADABLE = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Part(NamedTuple):
    """What a piece of a source file says.

    `names` are those that it uses, `origins` the full name behind each name that an import binds, `values` what is
    assigned to a name, `inner` the ids of the calls that are made only if the file is the program itself.
    """

    calls: list[ast.Call]
    names: set[str]
    imports: list[ast.Import | ast.ImportFrom]
    origins: dict[str, str]
    functions: dict[str, Function]
    classes: dict[str, ast.ClassDef]
    values: dict[str, ast.expr]
    inner: set[int]


class Source(NamedTuple):
    """A source file."""

    path: Path
    tree: ast.Module
    part: Part

    def origin(self, node: ast.AST) -> str:
        """Return the full name of what an expression names, `click.option` for `option`; empty if it names nothing."""
        head, dot, rest = dotted(node).partition(".")
        return self.part.origins.get(head, head) + dot + rest


class Code(NamedTuple):
    """All source files of a program, itself first; those of the library apart.

    `outside` are the modules that belong neither to the project nor to Python; functions, classes and assigned values
    are found by their names, those of the program first.
    """

    sources: list[Source]
    library: list[Source]
    outside: set[str]
    functions: dict[str, Function]
    classes: dict[str, ast.ClassDef]
    values: dict[str, ast.expr]

    @property
    def main(self) -> Source:
        """The program itself."""
        return self.sources[0]

    def calls(self, source: Source) -> Iterator[ast.Call]:
        """List the calls of a file, in the order of their lines, that are made when the program is run."""
        inner = () if source is self.main else source.part.inner
        return (call for call in source.part.calls if id(call) not in inner)

    def called(self, source: Source) -> set[str]:
        """Return the full names of what a file calls, or decorates its functions with."""
        decorators = (node for function in source.part.functions.values() for node in function.decorator_list)
        return {source.origin(node) for node in (*(call.func for call in self.calls(source)), *decorators)}

    def every_call(self) -> Iterator[tuple[Source, ast.Call]]:
        """List the calls of all files of the project."""
        return ((source, call) for source in self.sources for call in self.calls(source))

    def is_outside(self, origin: str) -> bool:
        """Return whether a full name belongs to a module outside of the project and of Python."""
        return origin.partition(".")[0] in self.outside


def dotted(node: ast.AST) -> str:
    """Write a name or attributes of one, `a.b.c`; of anything else only its attributes, `.b.c`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "", *reversed(parts)])


def last(node: ast.AST) -> str:
    """Return the last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def literal(node: ast.expr | None) -> object:
    """Return the number, text, true or false that stands there; None for anything else."""
    value = _evaluated(node)
    return value if _is_plain(value) else None


def literals(node: ast.expr | None) -> tuple[object, ...]:
    """Return the items of a list that stand in the source as they are; none if they are computed."""
    values = _evaluated(node)
    if not isinstance(values, list | tuple | set) or len(values) > MOST_CHOICES or not all(map(_is_plain, values)):
        return ()
    return tuple(values)


def keywords(call: ast.Call) -> dict[str, ast.expr]:
    """Return the named arguments of a call."""
    return {word.arg: word.value for word in call.keywords if word.arg}


def texts(nodes: list[ast.expr]) -> list[str]:
    """Return the texts among the arguments of a call."""
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def _evaluated(node: ast.expr | None) -> object:
    try:
        return ast.literal_eval(node) if node is not None else None
    except UNREADABLE:
        return None


def _is_plain(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) <= LARGEST_WHOLE
    return isinstance(value, float) or (isinstance(value, str) and len(value) <= LONGEST_TEXT and value.isprintable())


def read_code(root: Path, path: Path, search: tuple[Path, ...] = ()) -> Code:
    """Read a source file and what it imports; RequestError, with the line, for what cannot be read as Python."""
    sources: list[Source] = []
    library: dict[Path, None] = {}
    outside: set[str] = set()
    seen, pending, left = {path}, deque([path]), MOST_BYTES
    while pending and left > 0 and len(sources) < MOST_SOURCES:
        file = pending.popleft()
        text = _text(file)
        left -= len(text)
        sources.append(parse(file, text))
        for node in sources[-1].part.imports:
            found = _imported(root, path, file, node, search)
            if not found and not (isinstance(node, ast.ImportFrom) and node.level):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                outside |= {name.partition(".")[0] for name in names} - sys.stdlib_module_names
            library.update(dict.fromkeys(other for other in found if other.parent.name == LIBRARY))
            new = [other for other in found if other.parent.name != LIBRARY and other not in seen]
            seen.update(new)
            pending.extend(dict.fromkeys(new))
    parts = [source.part for source in reversed(sources)]
    return Code(
        sources,
        [parse(file, _text(file)) for file in library],
        outside,
        {name: node for part in parts for name, node in part.functions.items()},
        {name: node for part in parts for name, node in part.classes.items()},
        {name: node for part in parts for name, node in part.values.items()},
    )


def _imported(
    root: Path, program: Path, source: Path, node: ast.Import | ast.ImportFrom, search: tuple[Path, ...]
) -> list[Path]:
    """Return the files of the project, and of the library, that an import statement of a source names.

    As for `python -m` the project's folder is searched first, then that of the program, then further ones.
    """
    places = [root, program.parent, *search]
    if isinstance(node, ast.Import):
        return _files(places, [alias.name for alias in node.names])
    if node.level:
        above = source.parents[node.level - 1 : node.level]
        places = [folder for folder in above if folder.is_relative_to(root)]
    stem = node.module or ""
    names = [alias.name for alias in node.names if alias.name.isidentifier()]
    return _files(places, [stem, *(f"{stem}.{name}".lstrip(".") for name in names)])


def _files(places: list[Path], modules: list[str]) -> list[Path]:
    found: list[Path] = []
    for module in modules:
        parts = [part for part in module.split(".") if part]
        # The library is the installed one if the project has none of its own.
        installed = [Path(trainkit.__path__[0]).parent] if places and parts[:1] == [LIBRARY] else []
        bases = [place.joinpath(*parts) for place in (*places, *installed)] if parts else []
        files = [file for base in bases for file in (base.with_suffix(".py"), base / "__init__.py")]
        found += [file for file in files if file.is_file()][:1]
    return found


def unreadable(path: Path, error: Exception) -> RequestError:
    """Return the error of a source that cannot be read as Python."""
    line = getattr(error, "lineno", None) or 1
    said = one_line(error) or "nested too deep"
    return RequestError(f"{one_line(path)}:{line}: the program cannot be read as Python: {said}")


def _text(source: Path) -> bytes:
    try:
        return read_file(source, LARGEST_SOURCE)
    except (OSError, ValueError) as error:
        raise RequestError(f"{one_line(source)}: cannot be read: {reason_of(error)}") from None


@lru_cache(maxsize=256)
def parse(path: Path, text: bytes) -> Source:
    """Parse a source file; RequestError, with the line, if it is no Python.

    It is kept: a definition is read more than once, and its programs share most of what they import.
    """
    try:
        if b"coding" not in text[:200]:
            text.decode()  # as Python, which ast.parse leaves out for comments
        tree = syntax_tree(text, str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise unreadable(path, error) from None
    return Source(path, tree, part_of(tree))


def syntax_tree(text: bytes, name: str = "<unknown>") -> ast.Module:
    """Parse a source file in any encoding that it declares, without Python's warnings about a stranger's strings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, name)


@lru_cache(maxsize=256)
def part_of(tree: ast.AST) -> Part:
    """Look through a piece of a source file."""
    part = Part([], set(), [], {}, {}, {}, {}, set())
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            part.names.add(last(node))
        elif isinstance(node, ast.Call):
            part.calls.append(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            part.imports.append(node)
            part.origins.update(_bound(node))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            part.functions.setdefault(node.name, node)
        elif isinstance(node, ast.ClassDef):
            part.classes.setdefault(node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            part.values.update({name: node.value for name in map(last, targets) if name not in part.values})
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and last(node.test.left) == "__name__":
            inner = (call for statement in node.body for call in ast.walk(statement) if isinstance(call, ast.Call))
            part.inner.update(map(id, inner))
    part.values.pop("", None)  # a target without a name, for example a tuple
    part.calls.sort(key=lambda call: (call.lineno, call.col_offset))
    return part


def _bound(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Return the full name behind each name that an import binds."""
    if isinstance(node, ast.Import):
        tops = [(alias, alias.name.partition(".")[0]) for alias in node.names]
        return {alias.asname or top: alias.name if alias.asname else top for alias, top in tops}
    stem = "." * node.level + (node.module or "")
    return {alias.asname or alias.name: f"{stem}.{alias.name}" for alias in node.names}
