"""What earlier readings of `results/` found out, in one SQLite file: deleting it loses nothing.

It lies in the user's cache folder, because a copied or mounted `results/` may be read-only. For each folder of runs it
has the summary of each run, and the text of each table that was shown; both are good as long as the records are the
same files in the same state. What other code made is not read, and neither is what was damaged: SQLite does not notice
a changed byte, so each entry has a checksum of its own.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from runner.records.listing import Shelf

PAGE_BYTES = 65_536
BlockKey = tuple[str, str, str, str, str, bytes, str, tuple[str, ...]]
"""What all runs of a block share, by which blocks are sorted: experiment, target, hardware, and what they do."""
_ROOMS = ("core", "definitions", "records", "report")
_TABLES = {
    "runs": "folder BLOB PRIMARY KEY, sum INTEGER, summaries BLOB",
    "pages": "folder BLOB, form TEXT, sum INTEGER, texts BLOB, PRIMARY KEY(folder, form)",
}
_DELETE = ("DELETE FROM runs WHERE folder = ?", "DELETE FROM pages WHERE folder = ?")


class Kept(NamedTuple):
    """The encoded summary of a run, and the state of the record from which it was made."""

    state: tuple[int, int, int]
    summary: bytes


class Page(NamedTuple):
    """The text of one block."""

    key: BlockKey
    text: str


_runs_decoder = msgspec.msgpack.Decoder(dict[bytes, Kept])
_pages_decoder = msgspec.msgpack.Decoder(tuple[bytes, list[Page]])
_encode = msgspec.msgpack.Encoder().encode


class Cache:
    """The cache of one results folder; one that cannot be read is empty, and one that cannot be written is none."""

    def __init__(self, results: Path) -> None:
        self._path, self._code = _path_of(results), _state_of_the_code()

    def runs(self, shelves: list[Shelf]) -> dict[str, dict[str, Kept]]:
        """Return what is kept of the runs of some folders, by folder and run."""
        known = {os.fsencode(shelf.name): shelf for shelf in shelves}
        found: dict[str, dict[str, Kept]] = {}
        for folder, data in self._read("SELECT folder, sum, summaries FROM runs", known):
            with suppress(msgspec.DecodeError):
                kept = _runs_decoder.decode(data)
                found[known[folder].name] = {os.fsdecode(name): one for name, one in kept.items()}
        return found

    def pages(self, form: str, shelves: list[Shelf]) -> dict[str, list[Page]]:
        """Return the texts of the folders in which no record has changed since they were written."""
        known = {os.fsencode(shelf.name): shelf for shelf in shelves}
        found: dict[str, list[Page]] = {}
        for folder, data in self._read("SELECT folder, sum, texts FROM pages WHERE form = ?", known, form):
            with suppress(msgspec.DecodeError):
                digest, pages = _pages_decoder.decode(data)
                if digest == _digest(known[folder]):
                    found[known[folder].name] = pages
        return found

    def keep(
        self,
        present: list[Shelf],
        runs: dict[str, dict[str, Kept]],
        form: str = "",
        pages: list[tuple[Shelf, list[Page]]] | None = None,
    ) -> None:
        """Keep what was read again, in one transaction; if that fails, the next reading is slower, no more.

        Args:
            present: the folders that there are; what is kept of others is dropped.
            runs: all runs of the folders that were read again, by folder and run.
            form: the format of the pages.
            pages: the texts of folders.
        """
        if not runs and not pages:
            return
        try:
            of_runs = [(name, {os.fsencode(run): one for run, one in kept.items()}) for name, kept in runs.items()]
            of_pages = [(shelf.name, (_digest(shelf), texts)) for shelf, texts in pages or []]
            rows = [_row(name, value) for name, value in of_runs], [_row(name, value, form) for name, value in of_pages]
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path)) as database, database:
                self._prepare(database)
                gone = {folder for (folder,) in database.execute("SELECT folder FROM runs")}
                gone -= {os.fsencode(shelf.name) for shelf in present}
                for delete in _DELETE:
                    database.executemany(delete, [(folder,) for folder in gone])
                database.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", rows[0])
                database.executemany("INSERT OR REPLACE INTO pages VALUES (?, ?, ?, ?)", rows[1])
        except (sqlite3.Error, OSError, TypeError, ValueError, OverflowError):
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Make the tables, again if other code made those that are there."""
        database.execute("PRAGMA synchronous = OFF")
        database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        database.execute("BEGIN IMMEDIATE")
        if database.execute("PRAGMA user_version").fetchone() != (self._code,):
            for table, columns in _TABLES.items():
                database.execute(f"DROP TABLE IF EXISTS {table}")
                database.execute(f"CREATE TABLE {table}({columns})")
            database.execute(f"PRAGMA user_version = {self._code}")

    def _read(self, query: str, known: Container[bytes], *values: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of known folders that are as they were written."""
        try:
            with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)) as database:
                if database.execute("PRAGMA user_version").fetchone() == (self._code,):
                    for folder, checksum, data in database.execute(query, values):
                        if folder in known and checksum == _checksum(data):
                            yield folder, data
        except (sqlite3.Error, TypeError, ValueError):  # none yet, or a damaged one: then every record is read
            return


def forget(results: Path) -> None:
    """Remove the cache of a results folder that is about to go."""
    with suppress(OSError):
        _path_of(results).unlink()


def _row(folder: str, value: object, *form: str) -> tuple[bytes | str | int, ...]:
    data = _encode(value)
    return (os.fsencode(folder), *form, _checksum(data), data)


def _checksum(data: bytes) -> int:
    return zlib.crc32(data)


def _digest(shelf: Shelf) -> bytes:
    """Reduce the states of all records of a folder to a few bytes."""
    states = [(os.fsencode(name), *state) for name, state in shelf.records.items()]
    return hashlib.sha256(_encode(states)).digest()


def _path_of(results: Path) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")).absolute()  # noqa: PTH111 - never raises
    name = hashlib.sha256(os.fsencode(results.resolve())).hexdigest()[:16]
    return base / "distributed-experiment-kit" / f"{name}.sqlite"


def _state_of_the_code() -> int:
    """Return a number that changes with the code which makes summaries and texts, and with Python's version."""
    runner = Path(__file__).parents[1]
    states = [
        (entry.name, entry.stat().st_mtime_ns, entry.stat().st_size)
        for room in _ROOMS
        for entry in sorted(os.scandir(runner / room), key=lambda entry: entry.name)
        if entry.is_file()
    ]
    return zlib.crc32(_encode([sys.version, states])) & 0x7FFFFFFF  # what the header of an SQLite file has room for
