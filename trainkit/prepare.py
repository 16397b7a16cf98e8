"""Helpers for a family's `prepare.py`: options, downloads, and verified folders.

A prepared folder holds files and `prepared.json`, which names the source and each file's SHA-256.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainkit.arguments import Parser, data_folder
from trainkit.errors import REFUSED, Refusal, one_line, reason
from trainkit.files import open_file, read_file, require_output, write_file

LIST = "prepared.json"
LARGEST_LIST = 1_000_000
INTERRUPTED = 130
_BLOCK = 1 << 20


def prepare_parser(file: str, description: str | None) -> Parser:
    """Return a parser with the options that every `prepare.py` takes."""
    parser = Parser(description, prog=f"runner prepare {Path(file).parent.name}")
    parser.add_argument("--from", dest="source", type=Path, metavar="PATH", help="a folder or archive with the files")
    parser.add_argument("--data-dir", type=Path, default=data_folder(file), help="the data folder")
    return parser


def start(main: Callable[[], None]) -> None:
    """Run the `main` of a `prepare.py`, and report a refusal in one line."""
    try:
        main()
    except Refusal as refusal:
        sys.stderr.write(f"error: {refusal.line}\n")
        raise SystemExit(REFUSED) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(INTERRUPTED) from None


def say(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(f"{one_line(text)}\n")
    sys.stderr.flush()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a regular file; OSError if it cannot be read."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def read_json(content: bytes) -> Any:
    """Parse untrusted JSON; ValueError if it is invalid."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_prepared(folder: Path) -> tuple[str, dict[str, str]]:
    """Return the source of a prepared folder and its files' SHA-256, after checking all files.

    Raises OSError if a file cannot be read, and ValueError if a file or the list has changed.
    """
    listed = read_json(read_file(folder / LIST, LARGEST_LIST))
    if not isinstance(listed, dict) or not isinstance(listed.get("files"), dict):
        message = f"{LIST} is not a list of files"
        raise ValueError(message)  # noqa: TRY004 - to the caller, the file is invalid
    for name, sha256 in listed["files"].items():
        if not name or name != Path(name).name:
            raise ValueError(f"{LIST} names {name!r}, which is not a file of its folder")
        if sha256_of(folder / name) != sha256:
            raise ValueError(f"{name} has changed: its SHA-256 is not {str(sha256)[:16]}...")
    return str(listed.get("source")), listed["files"]


def prepared_source(folder: Path) -> str | None:
    """Return the source of a prepared folder; None if a file is missing or has changed."""
    try:
        return read_prepared(folder)[0]
    except (OSError, ValueError):
        return None


def install(folder: Path, source: str, files: Mapping[str, Path | bytes]) -> None:
    """Create a prepared folder. The list of hashes is written last; a folder without the list counts as unprepared."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LIST).unlink(missing_ok=True)
        hashes = {name: put(folder / name, content) for name, content in files.items()}
        listed = json.dumps({"source": source, "files": hashes}, indent=2) + "\n"
        write_file(folder / LIST, listed.encode())


def put(path: Path, content: Path | bytes) -> str:
    """Write a file atomically from bytes or another file, and return its SHA-256."""
    require_output(path)
    if isinstance(content, bytes):
        write_file(path, content)
        return hashlib.sha256(content).hexdigest()
    digest = hashlib.sha256()
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open_file(content) as file, beside.open("xb") as copy:
            while block := file.read(_BLOCK):
                digest.update(block)
                copy.write(block)
            copy.flush()
            os.fsync(copy.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return digest.hexdigest()


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Convert OSError while writing to `folder` to a one-line Refusal."""
    try:
        yield
    except OSError as error:
        raise Refusal(f"{folder}: cannot be written: {reason(error)}; name another folder with --data-dir") from None


def call(argv: list[str], failed: str, way_out: str, env: Mapping[str, str] | None = None) -> None:
    """Run a command that downloads something; if it fails, Refusal with the last line of the command's stderr."""
    ended = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False, env=env)
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
        raise Refusal(f"{failed} ({one_line(last)}); {way_out}")
