"""`results/` -> Digests, by way of a disposable cache: deleting it loses nothing.

The cache is one SQLite file in the user's cache folder, because a copied or mounted `results/` may be read-only. A
run's line in it is good as long as its `run.json` is the same file (inode), of the same size, unchanged since (ctime,
which nothing can set back).
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from runner.digest import Digest, digest
from runner.errors import RequestError, one_line
from runner.record import RunFolder, read_record, run_folders

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 6
_decoder = msgspec.msgpack.Decoder(Digest)
_encode = msgspec.msgpack.Encoder().encode


class Contents(NamedTuple):
    """The runs below a folder, and a note for each file that is none."""

    digests: list[Digest]
    notes: list[str]


def read_results(results: Path) -> Contents:
    """Read every record below a folder; RequestError if there is no such folder."""
    if not results.is_dir():
        msg = f"{results}: there is no such folder; make a first run with: runner run quickstart"
        raise RequestError(msg)
    cached = _load(results)
    digests: list[Digest] = []
    notes: list[str] = []
    fresh: list[tuple[str, int, int, int, bytes]] = []
    base = len(str(results)) + 1
    for entry in run_folders(results):
        path, name = entry.path + "/run.json", entry.path[base:]
        try:
            stat = os.stat(path)  # noqa: PTH116 - a hundred thousand times
        except OSError:
            if (Path(entry.path) / "raw").is_dir():
                notes.append(
                    f"{entry.path}: left out: no run.json; make it with: runner collect {shlex.quote(entry.path)}"
                )
            continue
        state = (stat.st_ctime_ns, stat.st_ino, stat.st_size)
        known = cached.pop(name, None)
        if known and known[:3] == state:
            with suppress(msgspec.DecodeError, TypeError):
                digests.append(_decoder.decode(known[3]))
                continue
        try:
            one = digest(read_record(Path(path).read_bytes()), name)
        except (ValueError, TypeError, OSError, AttributeError, LookupError, ArithmeticError) as error:
            notes.append(one_line(f"{path}: left out: {error}"))
            continue
        digests.append(one)
        fresh.append((name, *state, _encode(one)))
    _save(results, fresh, cached)
    return Contents([_with_fate(one, results) for one in digests], notes)


def _with_fate(one: Digest, results: Path) -> Digest:
    """Find out what became of a record that still says `running`: collected now, or killed with its runner."""
    if one.status != "running":
        return one
    if one.by_hand:
        from runner.afterwards import collect_afterwards  # noqa: PLC0415 - rarely needed

        with suppress(ValueError, OSError):
            record = collect_afterwards(RunFolder(results / one.path))
            return digest(record, one.path) if record else one
    from runner.liveness import is_alive  # noqa: PLC0415 - rarely needed, and psutil takes its time

    if is_alive(one.runner) is False:
        return msgspec.structs.replace(one, status="killed", reason="the runner was killed before the run ended")
    return one


def _cache_file(results: Path) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")).absolute()  # noqa: PTH111 - never raises
    name = hashlib.sha256(str(results.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return base / "distributed-experiment-kit" / f"{name}-v{VERSION}.sqlite"


def _load(results: Path) -> dict[str, tuple[int, int, int, bytes]]:
    try:
        with closing(sqlite3.connect(f"{_cache_file(results).as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute("SELECT path, changed, inode, size, digest FROM runs")
            return {row[0]: row[1:] for row in rows}
    except sqlite3.Error:  # none yet, or not to be read: then every record is
        return {}


def _save(results: Path, fresh: list[tuple[str, int, int, int, bytes]], gone: Iterable[str]) -> None:
    """Bring the cache up to date; where it cannot be written, the next reading is slower, no more."""
    path, gone = _cache_file(results), list(gone)
    if not fresh and not gone:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA synchronous = OFF")
            database.execute(
                "CREATE TABLE IF NOT EXISTS"
                " runs(path TEXT PRIMARY KEY, changed INTEGER, inode INTEGER, size INTEGER, digest BLOB)"
            )
            database.executemany("DELETE FROM runs WHERE path = ?", [(name,) for name in gone])
            database.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", fresh)
    except (sqlite3.Error, OSError, UnicodeEncodeError, OverflowError):
        with suppress(OSError):
            path.unlink(missing_ok=True)
