"""Collect and hash the programs and data that a run needs on its hosts."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from runner.definitions.plan import Run
from runner.definitions.settings import PACKAGE
from trainkit.sources import LIBRARY

Cargo = dict[Path, set[str]]
"""Relative paths of files, the same here and on the host, by the local folder that contains the files."""
_BLOCK = 262_144
_LEFT_OUT = ("__pycache__", ".git", ".venv")


def programs(run: Run) -> Cargo:
    """Return the files of trainkit and the sources of a run's program."""
    program, root = run.cell.program, run.experiment.root
    places = {*program.folders, *program.places, *([] if program.files else [f"{PACKAGE}/__init__.py"])}
    return _collected([(LIBRARY.parent, LIBRARY.name), *((root, place) for place in places - {LIBRARY.name})])


def data(run: Run) -> Cargo:
    """Return the prepared data of the experiment. Returns {} if it needs no data, or if no data is prepared here."""
    name = run.experiment.data
    return _collected([(run.experiment.root / "data", name)] if name else [])


def size(cargo: Cargo) -> int:
    """Return the total size of all files in bytes."""
    return sum((root / name).stat().st_size for root, names in cargo.items() for name in names)


def sha256(cargo: Cargo, *more: str) -> str:
    """Return one hash of the names and contents of all files, and of the texts `more`."""
    lines = list(more)
    for name, root in sorted((name, root) for root, names in cargo.items() for name in names):
        digest = hashlib.sha256()
        with (root / name).open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        lines.append(f"{name}\0{digest.hexdigest()}\n")
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _collected(places: Iterable[tuple[Path, str]]) -> Cargo:
    cargo: Cargo = {}
    for root, place in places:
        if names := set(_walk(root, place)):
            cargo.setdefault(root, set()).update(names)
    return cargo


def _walk(root: Path, place: str) -> Iterator[str]:
    """Yield `place` if it is a file. If it is a folder, yield the paths of the regular files below it, but no links."""
    if (root / place).is_file():
        yield place
    for above, folders, names in os.walk(root / place):
        folders[:] = [folder for folder in folders if folder not in _LEFT_OUT]
        paths = (Path(above, name) for name in names)
        yield from (str(path.relative_to(root)) for path in paths if path.is_file() and not path.is_symlink())
