"""Which files of a project an import names."""

from __future__ import annotations

import ast
from pathlib import Path

import trainkit

LIBRARY = "trainkit"


def imported(
    root: Path, program: Path, source: Path, node: ast.Import | ast.ImportFrom, search: tuple[Path, ...] = ()
) -> list[Path]:
    """Return the files of the project, and of the library, that an import statement names.

    Args:
        root: the project's folder, which is searched first, as for `python -m`.
        program: the script that is started; its folder is searched too.
        source: the file that the statement stands in.
        node: the statement.
        search: further folders that are searched, for example `src/`.
    """
    if isinstance(node, ast.Import):
        return _files([root, program.parent, *search], [alias.name for alias in node.names])
    names = [alias.name for alias in node.names if alias.name.isidentifier()]
    if not node.level:
        stem = node.module or ""
        return _files([root, program.parent, *search], [stem, *(f"{stem}.{name}" for name in names)])
    if not source.parents[node.level - 1 :] or not source.parents[node.level - 1].is_relative_to(root):
        return []
    stem = node.module or ""
    return _files([source.parents[node.level - 1]], [stem, *(f"{stem}.{name}".lstrip(".") for name in names)])


def _files(places: list[Path], modules: list[str]) -> list[Path]:
    found = []
    for module in modules:
        parts = [part for part in module.split(".") if part]
        # The library is the installed one if the project has none of its own.
        installed = [Path(trainkit.__path__[0]).parent] if parts[:1] == [LIBRARY] else []
        for place in (*places, *installed) if parts else ():
            base = place.joinpath(*parts)
            if file := next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None):
                found.append(file)
                break
    return found
