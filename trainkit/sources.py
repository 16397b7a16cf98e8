"""The programs that a run is made of, hashed: two runs with the same hash ran the same code.

It covers `trainkit/` and the program's own family, `experiments/<family>/`, so that a change of one family leaves the
runs of another comparable. The runner hashes a checkout or an image with it, and every process what it really runs.
"""

import hashlib
from pathlib import Path

from trainkit.files import read_file

LIBRARY = Path(__file__).parent
FAMILIES = "experiments"
"""The folder of a project, and the package, in which its families of programs are."""
LARGEST_BYTES = 10_000_000


def read_sources(root: Path, program: str) -> dict[str, bytes]:
    """Read the Python files behind a program, for example `mnist.ddp` of the project in `root`, by their paths."""
    return read_folders(root, folders_of(program))


def folders_of(program: str) -> list[str]:
    """Return where the Python files behind a program are, from the project's folder."""
    return [LIBRARY.name, f"{FAMILIES}/{program.partition('.')[0]}"]


def read_folders(root: Path, folders: list[str]) -> dict[str, bytes]:
    """Read the Python files of a project's folders, by their paths; the library is the one that is imported."""
    own = [(LIBRARY, LIBRARY.parent) if name == LIBRARY.name else (root / name, root) for name in folders]
    return {
        path.relative_to(base).as_posix(): read_file(path, LARGEST_BYTES)
        for folder, base in own
        for path in folder.rglob("*.py")
        if path.is_file() and not path.is_symlink()
    }


def hash_sources(files: dict[str, bytes]) -> str:
    """Return the SHA-256 over files with their paths, in the order of the paths."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path}\0".encode("utf-8", "surrogateescape"))
        digest.update(hashlib.sha256(files[path]).digest())
    return digest.hexdigest()
