"""Find the source files of a program by its imports, without running any code."""

import ast
import warnings
from collections import deque
from functools import lru_cache
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line
from trainkit.sources import LIBRARY


def read_imported(root: Path, program: Path, search: tuple[Path, ...] = ()) -> dict[Path, bytes]:
    """Read a program, and the project's files that it imports directly or indirectly. `trainkit` is left out.

    Raises RequestError, with the line, if a file is not valid Python.
    """
    sources: dict[Path, bytes] = {}
    pending = deque([program])
    while pending:
        file = pending.popleft()
        if file in sources:
            continue
        try:
            sources[file] = text = file.read_bytes()
        except OSError as error:
            raise RequestError(f"{one_line(file)}: cannot be read: {error.strerror}") from None
        for node in _imports(file, text):
            pending.extend(_imported(root, program, file, node, search))
    return sources


def _imported(
    root: Path, program: Path, source: Path, node: ast.Import | ast.ImportFrom, search: tuple[Path, ...]
) -> list[Path]:
    """Return the project's files that an import statement names.

    As with `python -m`, the project's folder is searched first, then the program's folder, then `search`.
    """
    places = [root, program.parent, *search]
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        if node.level:
            above = source.parents[node.level - 1 : node.level]
            places = [folder for folder in above if folder.is_relative_to(root)]
        stem = node.module or ""
        names = [stem, *(f"{stem}.{name}".lstrip(".") for name in names if name.isidentifier())]
    found: list[Path] = []
    for parts in (name.split(".") for name in names if name and name.partition(".")[0] != LIBRARY.name):
        bases = [place.joinpath(*parts) for place in places]
        files = [file for base in bases for file in (base.with_suffix(".py"), base / "__init__.py")]
        found += [file for file in files if file.is_file()][:1]
    return found


@lru_cache(maxsize=256)
def _imports(path: Path, text: bytes) -> list[ast.Import | ast.ImportFrom]:
    try:
        if b"coding" not in text[:200]:
            text.decode()  # Python decodes comments too, ast.parse does not
        tree = syntax_tree(text, str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        said = one_line(error) or "nested too deep"
        raise RequestError(f"{one_line(path)}:{line}: the program cannot be read as Python: {said}") from None
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def syntax_tree(text: bytes, name: str = "<unknown>") -> ast.Module:
    """Parse a source file in its declared encoding, without showing Python's warnings about the source."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, name)
