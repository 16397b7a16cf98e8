"""Hash the sources of a program: runs with equal hashes ran the same code.

The hash covers `trainkit/` and the program's family, `experiments/<family>/`, so a change to one family leaves runs of
others comparable.
"""

import hashlib
from pathlib import Path

from trainkit.files import read_file

LIBRARY = Path(__file__).parent
FAMILIES = "experiments"
"""The folder of a project, and the package, that contains the families of programs."""
LARGEST_BYTES = 10_000_000


def read_sources(root: Path, program: str) -> dict[str, bytes]:
    """Return the content of the Python files behind a program, such as `mnist.ddp`, by path relative to `root`."""
    return read_folders(root, folders_of(program))


def folders_of(program: str) -> list[str]:
    """Return the folders with the Python files behind a program, relative to the project."""
    return [LIBRARY.name, f"{FAMILIES}/{program.partition('.')[0]}"]


def read_folders(root: Path, folders: list[str]) -> dict[str, bytes]:
    """Return the content of the Python files in a project's folders, by path; trainkit's are the imported files."""
    own = [(LIBRARY, LIBRARY.parent) if name == LIBRARY.name else (root / name, root) for name in folders]
    return {
        path.relative_to(base).as_posix(): read_file(path, LARGEST_BYTES)
        for folder, base in own
        for path in folder.rglob("*.py")
        if path.is_file() and not path.is_symlink()
    }


def hash_sources(files: dict[str, bytes]) -> str:
    """Return the SHA-256 of files and their paths, sorted by path."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path}\0".encode("utf-8", "surrogateescape"))
        digest.update(hashlib.sha256(files[path]).digest())
    return digest.hexdigest()
