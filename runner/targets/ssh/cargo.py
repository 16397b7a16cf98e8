"""What a run needs on a host: its programs and its data, each as a folder that is named by its hash."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.plan import Run
from runner.definitions.settings import PACKAGE
from trainkit.sources import LIBRARY

_MOST_BYTES = {"programs": 256 * 2**20, "data": 8 * 2**30}
_WAYS_OUT = {
    "programs": "keep data apart",
    "data": "prepare it on the hosts, and name the folder with --with data=PATH",
}
_MOST_FILES = 200_000
_BLOCK = 262_144
_LEFT_OUT = ("__pycache__", ".git", ".venv")


@dataclass
class Cargo:
    """Files of this machine, by the folders below which they have the names that they get on the host."""

    roots: dict[Path, list[str]] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    size: int = 0
    """Bytes of all files."""

    @property
    def sha256(self) -> str:
        """The hash of all names and contents."""
        lines = "".join(f"{name}\0{self.hashes[name]}\n" for name in sorted(self.hashes))
        return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()

    def name_with(self, data: str) -> str:
        """Name the folder of these files on a host, given the data folder that is seen there beside them."""
        return hashlib.sha256(f"{self.sha256}\0{data}".encode("utf-8", "surrogateescape")).hexdigest()


def programs(run: Run) -> Cargo:
    """Collect the library and the sources of a run's program; RequestError if they are too large."""
    root, program = run.experiment.root, run.cell.program
    cargo = Cargo()
    places = [name for name in (*program.folders, *program.places) if name != LIBRARY.name]
    if not program.files:
        places.append(f"{PACKAGE}/__init__.py")
    _add(cargo, LIBRARY.parent, LIBRARY.name, "programs")
    for place in dict.fromkeys(places):
        _add(cargo, root, place, "programs")
    return cargo


def data(run: Run) -> Cargo | None:
    """Collect the prepared data that the definition names; None if it names none, or none is prepared here."""
    name = run.experiment.data
    cargo = Cargo()
    if name:
        _add(cargo, run.experiment.root / "data", name, "data")
    return cargo if cargo.hashes else None


def _add(cargo: Cargo, root: Path, place: str, what: str) -> None:
    names = cargo.roots.setdefault(root, [])
    for name in _walk(root, place):
        digest = hashlib.sha256()
        with (root / name).open("rb") as file:
            while block := file.read(_BLOCK):
                cargo.size += len(block)
                digest.update(block)
        if cargo.size > _MOST_BYTES[what] or len(names) >= _MOST_FILES:
            most = f"{_MOST_BYTES[what] >> 20:,} MiB or {_MOST_FILES:,} files"
            raise RequestError(one_line(f"{root / place}: the {what} have more than {most}: {_WAYS_OUT[what]}"))
        if name not in cargo.hashes:
            cargo.hashes[name] = digest.hexdigest()
            names.append(name)


def _walk(root: Path, place: str) -> Iterable[str]:
    """Yield the names of the regular files of a folder, or of the one file; links are left out."""
    if (root / place).is_file():
        yield place
    for above, folders, names in os.walk(root / place):
        folders[:] = sorted(folder for folder in folders if folder not in _LEFT_OUT)
        paths = (Path(above, name) for name in sorted(names))
        yield from (str(path.relative_to(root)) for path in paths if path.is_file() and not path.is_symlink())
