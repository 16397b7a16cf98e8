"""What a family's `prepare.py` is made of: its options, fetching, and folders that are checked to the last byte.

A prepared folder holds files and `prepared.json`, which has the name of their source and the SHA-256 of each.
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
    """Return a parser with what every `prepare.py` takes; a family adds its own."""
    parser = Parser(description, prog=f"runner prepare {Path(file).parent.name}")
    parser.add_argument("--from", dest="source", type=Path, metavar="PATH", help="a folder or archive that holds it")
    parser.add_argument("--data-dir", type=Path, default=data_folder(file), help="the data folder")
    return parser


def start(main: Callable[[], None]) -> None:
    """Run the `main` of a `prepare.py`; a refusal is one line."""
    try:
        main()
    except Refusal as refusal:
        sys.stderr.write(f"error: {refusal.line}\n")
        raise SystemExit(REFUSED) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(INTERRUPTED) from None


def say(text: str) -> None:
    """Write a line to stderr; stdout stays empty."""
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
    """Read JSON from outside; ValueError for whatever is wrong with it."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_prepared(folder: Path) -> tuple[str, dict[str, str]]:
    """Return the source of a prepared folder and the SHA-256 of its files, after comparing each of them.

    Raises OSError if something cannot be read, and ValueError if it is not as it was prepared.
    """
    listed = read_json(read_file(folder / LIST, LARGEST_LIST))
    if not isinstance(listed, dict) or not isinstance(listed.get("files"), dict):
        message = f"{LIST} is no list of files"
        raise ValueError(message)  # noqa: TRY004 - for the caller it is the file that is wrong
    for name, sha256 in listed["files"].items():
        if not name or name != Path(name).name:
            raise ValueError(f"{LIST} names {name!r}, which is no file of its folder")
        if sha256_of(folder / name) != sha256:
            raise ValueError(f"{name} is not what was prepared: its SHA-256 is not {str(sha256)[:16]}...")
    return str(listed.get("source")), listed["files"]


def prepared_source(folder: Path) -> str | None:
    """Return the source of a prepared folder if every byte of it is right."""
    try:
        return read_prepared(folder)[0]
    except (OSError, ValueError):
        return None


def install(folder: Path, source: str, files: Mapping[str, Path | bytes]) -> None:
    """Make a prepared folder; the list of hashes is written last, and without it nothing is prepared."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LIST).unlink(missing_ok=True)
        hashes = {name: put(folder / name, content) for name, content in files.items()}
        listed = json.dumps({"source": source, "files": hashes}, indent=2) + "\n"
        write_file(folder / LIST, listed.encode())


def put(path: Path, content: Path | bytes) -> str:
    """Write a file whole or not at all, from bytes or from another file, and return its SHA-256."""
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
    """Turn a folder that cannot be written into a line."""
    try:
        yield
    except OSError as error:
        raise Refusal(f"{folder}: cannot be written: {reason(error)}; name another folder with --data-dir") from None


def call(argv: list[str], failed: str, way_out: str, env: Mapping[str, str] | None = None) -> None:
    """Run a command that fetches something; Refusal with the last line of what it printed."""
    ended = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False, env=env)
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
        raise Refusal(f"{failed} ({one_line(last)}); {way_out}")
