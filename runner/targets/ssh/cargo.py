"""What a run needs on a host: its programs and its data, each as a folder that is named by its hash."""

import errno
import hashlib
import os
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.plan import Run
from runner.definitions.settings import PACKAGE
from runner.targets.ssh.on_host import hash_of
from trainkit import files
from trainkit.sources import LIBRARY

_MOST_BYTES = {"programs": 256 * 2**20, "data": 8 * 2**30}
_WAYS_OUT = {
    "programs": "keep data apart",
    "data": "prepare it on the hosts, and name the folder with --with data=PATH",
}
MOST_FILES = 200_000
BLOCK = 262_144
_LEFT_OUT = ("__pycache__", ".git", ".venv")


@dataclass
class Cargo:
    """Files of this machine, by their paths on the host, with the hash of each."""

    paths: dict[str, Path] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    size: int = 0
    """Bytes of all files."""

    @property
    def sha256(self) -> str:
        """The hash of all: of their paths and their own hashes, in the order of the paths."""
        return hash_of(self.hashes)

    def name_with(self, data: str) -> str:
        """Name the folder of these files on a host, given the data folder that is seen there beside them."""
        if not data:
            return self.sha256
        return hashlib.sha256(f"{self.sha256}\0{data}".encode("utf-8", "surrogateescape")).hexdigest()

    def blocks(self) -> Iterator[bytes]:
        """Yield a tar archive of the files; OSError if one of them is another one by now, or cannot be read."""
        for name in sorted(self.paths):
            with files.open_file(self.paths[name]) as file:
                member = tarfile.TarInfo(name)
                size = member.size = os.fstat(file.fileno()).st_size
                yield member.tobuf(tarfile.PAX_FORMAT)
                while size > 0 and (block := file.read(min(BLOCK, size))):
                    size -= len(block)
                    yield block
                if size:
                    raise OSError(errno.EIO, "it became shorter while it was read", str(self.paths[name]))
                yield b"\0" * (-member.size % tarfile.BLOCKSIZE)
        yield b"\0" * (2 * tarfile.BLOCKSIZE)


def programs(run: Run) -> Cargo:
    """Collect the library and the sources of a run's program; RequestError if they are too large."""
    root, program = run.experiment.root, run.cell.program
    cargo = Cargo()
    places = [name for name in (*program.folders, *program.places) if name != LIBRARY.name]
    if not program.files:
        places.append(f"{PACKAGE}/__init__.py")
    _add(cargo, LIBRARY, LIBRARY.name, "programs")
    for place in dict.fromkeys(places):
        _add(cargo, root / place, place, "programs")
    return cargo


def data(run: Run) -> Cargo | None:
    """Collect the prepared data that the definition names; None if it names none, or none is prepared here."""
    name = run.experiment.data
    if not name or not files.is_folder(run.experiment.root / "data" / name):
        return None
    cargo = Cargo()
    _add(cargo, run.experiment.root / "data" / name, name, "data")
    return cargo if cargo.paths else None


def _add(cargo: Cargo, path: Path, name: str, what: str) -> None:
    for source, inner in _walk(path, name):
        with files.open_file(source) as file:
            cargo.size += os.fstat(file.fileno()).st_size
            if cargo.size > _MOST_BYTES[what] or len(cargo.paths) >= MOST_FILES:
                most = f"{_MOST_BYTES[what] >> 20:,} MiB or {MOST_FILES:,} files"
                raise RequestError(one_line(f"{path}: the {what} have more than {most}: {_WAYS_OUT[what]}"))
            digest = hashlib.sha256()
            while block := file.read(BLOCK):
                digest.update(block)
            cargo.hashes[inner] = digest.hexdigest()
        cargo.paths[inner] = source


def _walk(path: Path, name: str) -> Iterable[tuple[Path, str]]:
    """Yield the regular files of a folder, or the one file, with their names; links are left out."""
    if files.is_file(path):
        yield path, name
        return
    for place, folders, names in os.walk(path):
        folders[:] = sorted(folder for folder in folders if folder not in _LEFT_OUT)
        for source in (Path(place, file_name) for file_name in sorted(names)):
            if files.is_file(source):
                yield source, f"{name}/{source.relative_to(path)}"
