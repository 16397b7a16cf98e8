"""`results/` -> RunSummaries, by way of a disposable cache: deleting it loses nothing.

The cache is one SQLite file in the user's cache folder, because a copied or mounted `results/` may be read-only. A
run's line in it is good as long as its `run.json` is the same file (inode), of the same size, unchanged since (ctime,
which nothing can set back). Nothing is ever written below `results/`.
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

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.core.values import text
from runner.records.decode import read_record
from runner.records.folder import LARGEST_RECORD, RunFolder, run_folders
from runner.records.verdict import NO_OUTCOME
from runner.report.run_summary import RunSummary, summary_of
from trainkit.files import is_file, is_folder, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 7
_BROKEN = (ValueError, TypeError, OSError, AttributeError, LookupError, ArithmeticError, RecursionError)
_decoder = msgspec.msgpack.Decoder(RunSummary)
_encode = msgspec.msgpack.Encoder().encode


class Contents(NamedTuple):
    """The runs below a folder, and a note for each file that is none."""

    runs: list[RunSummary]
    notes: list[str]


def read_results(results: Path) -> Contents:
    """Read every record below a folder; RequestError if there is no such folder."""
    if not results.is_dir():
        msg = f"{results}: there is no such folder; make a first run with: runner run quickstart"
        raise RequestError(msg)
    cached = _load(results)
    runs: list[RunSummary] = []
    notes: list[str] = []
    fresh: list[tuple[str, int, int, int, bytes]] = []
    base = len(str(results)) + 1
    for entry in run_folders(results, notes):
        path, name = entry.path + "/run.json", entry.path[base:]
        try:
            status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - a hundred thousand times
        except OSError as error:
            notes += _without_record(entry.path, error)
            continue
        state = (status.st_ctime_ns, status.st_ino, status.st_size)
        known = cached.pop(name, None)
        if known and known[:3] == state:
            with suppress(msgspec.DecodeError, TypeError):
                runs.append(_decoder.decode(known[3]))
                continue
        try:
            run = summary_of(read_record(read_file(Path(path), LARGEST_RECORD, below=results)), name)
        except _BROKEN as error:
            notes.append(f"{path}: left out: {getattr(error, 'strerror', None) or error}")
            continue
        runs.append(run)
        if text(name) is not None:  # SQLite keeps no name that is not UTF-8
            fresh.append((name, *state, _encode(run)))
    _save(results, fresh, cached)
    return Contents([_with_fate(run, results) for run in runs], [one_line(note) for note in notes])


def _without_record(folder: str, error: OSError) -> list[str]:
    if not isinstance(error, FileNotFoundError):
        return [f"{folder}: left out: {error.strerror}"]
    if is_folder(Path(folder) / "raw"):
        return [f"{folder}: left out: no run.json; make it with: runner collect {shlex.quote(one_line(folder))}"]
    return []


def _with_fate(run: RunSummary, results: Path) -> RunSummary:
    """Find out what became of a record that still says `running`; nothing is written."""
    if run.status != "running":
        return run
    if run.by_hand:
        return _derived(run, results)
    from runner.records.provenance import is_alive  # noqa: PLC0415 - rarely needed, and psutil takes its time

    if is_alive(run.runner) is not False:
        return run
    status, reason = NO_OUTCOME
    if is_file(results / run.path / "raw" / "outcome.json"):
        reason = "the run ended and its record was not written"
    return msgspec.structs.replace(run, status=status, reason=f"{reason}; runner collect reads what it left")


def _derived(run: RunSummary, results: Path) -> RunSummary:
    """Make the record of a run that was started by hand, in memory, until somebody collects it."""
    from runner.records.finalize import MOST_BYTES_IN_MEMORY, derive  # noqa: PLC0415 - rarely needed

    try:
        record = derive(RunFolder(results / run.path), MOST_BYTES_IN_MEMORY)
        return summary_of(record, run.path) if record else run
    except _BROKEN as error:
        words = one_line(getattr(error, "strerror", None) or error)
        return msgspec.structs.replace(run, status="incomplete", reason=f"started by hand and not collected: {words}")


def _cache_file(results: Path) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")).absolute()  # noqa: PTH111 - never raises
    name = hashlib.sha256(str(results.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return base / "distributed-experiment-kit" / f"{name}-v{VERSION}.sqlite"


def _load(results: Path) -> dict[str, tuple[int, int, int, bytes]]:
    try:
        with closing(sqlite3.connect(f"{_cache_file(results).as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute("SELECT path, changed, inode, size, summary FROM runs")
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
                " runs(path TEXT PRIMARY KEY, changed INTEGER, inode INTEGER, size INTEGER, summary BLOB)"
            )
            database.executemany("DELETE FROM runs WHERE path = ?", [(name,) for name in gone])
            database.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", fresh)
    except (sqlite3.Error, OSError, UnicodeEncodeError, OverflowError):
        with suppress(OSError):
            path.unlink(missing_ok=True)
