"""`results/` -> RunSummaries: a record that the cache does not know is parsed, many of them in parallel.

Nothing is ever written below `results/`.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from runner.core.text import one_line
from runner.records.decode import read_record
from runner.records.folder import LARGEST_RECORD, RunFolder
from runner.records.listing import RECORD, list_shelves
from runner.records.verdict import NO_OUTCOME
from runner.report.cache import Cache, Kept
from runner.report.parallel import in_shares
from runner.report.run_summary import RunSummary, summary_of
from trainkit.files import is_file, read_file

if TYPE_CHECKING:
    from pathlib import Path

    from runner.records.listing import Shelf

FEWEST_IN_PARALLEL = 500
"""Records for which another process pays."""
LARGEST_IN_PARALLEL = 1_000_000
"""Bytes of a record; larger ones are parsed one after the other, because each may take much memory."""
BROKEN = (ValueError, TypeError, OSError, AttributeError, LookupError, ArithmeticError, RecursionError)
_encode = msgspec.msgpack.Encoder().encode
_decode_summary = msgspec.msgpack.Decoder(RunSummary).decode
_decode_parsed = msgspec.msgpack.Decoder(list[tuple[bytes, str]]).decode


class Contents(NamedTuple):
    """The runs below a folder, and a note for each file that is none."""

    runs: list[RunSummary]
    notes: list[str]


class Reading:
    """The runs of some folders, as their records say, and what of it the cache did not know.

    Attributes:
        runs: every run whose record can be read, with what became of it if the record still says `running`.
        notes: one for each record that cannot be read.
        dead: how many runs still say `running` and have no living runner.
        fresh: all runs of the folders in which anything has changed, for the cache.
        settled: the folders of which the next reading says the same, unless a record changes.
    """

    def __init__(self, results: Path, shelves: list[Shelf], cache: Cache) -> None:
        self.runs: list[RunSummary] = []
        self.notes: list[str] = []
        self.dead = 0
        self.fresh: dict[str, dict[str, Kept]] = {}
        self.settled: set[str] = set()
        self._results, self._cache = results, cache
        self.read(shelves)

    def read(self, shelves: list[Shelf]) -> None:
        """Read further folders."""
        kept = self._cache.runs(shelves) if shelves else {}
        unknown = [one for shelf in shelves for one in _unknown(shelf, kept.get(shelf.name, {}))]
        parsed = _parse_all(self._results, unknown)
        for shelf in shelves:
            self._take(shelf, kept.get(shelf.name, {}), parsed)

    def all_notes(self) -> list[str]:
        """Return the notes, and how the records of dead runners are finished."""
        if not self.dead:
            return self.notes
        ended = "the runner of 1 run was" if self.dead == 1 else f"the runners of {self.dead} runs were"
        command = f"runner recover {shlex.quote(one_line(self._results))}"
        return [*self.notes, f"{ended} killed; {command} ends what is left of it and makes the record"]

    def _take(self, shelf: Shelf, kept: dict[str, Kept], parsed: dict[str, tuple[bytes, str]]) -> None:
        known: dict[str, Kept] = {}
        changing = False
        for name, state in shelf.records.items():
            path = shelf.path(name)
            summary, why = parsed[path] if path in parsed else (kept[name].summary, "")
            if why:
                self.notes.append(f"{self._results / path / RECORD}: left out: {why}")
                changing = True
                continue
            run = _decode_summary(summary)
            msgspec.structs.force_setattr(run, "path", path)
            if run.status == "running":
                run, changing = _with_fate(run, self._results), True
                self.dead += run.status != "running" and not run.by_hand
            self.runs.append(run)
            known[name] = Kept(state, summary)
        if known != kept:
            self.fresh[shelf.name] = known
        if not changing:
            self.settled.add(shelf.name)


def read_results(results: Path) -> Contents:
    """Read every record below a folder; RequestError if there is no such folder."""
    notes: list[str] = []
    shelves = list_shelves(results, notes)
    cache = Cache(results)
    reading = Reading(results, shelves, cache)
    cache.keep(shelves, reading.fresh)
    return Contents(reading.runs, [one_line(note) for note in (*notes, *reading.all_notes())])


def _unknown(shelf: Shelf, kept: dict[str, Kept]) -> list[tuple[str, int]]:
    """Return where the runs of a folder lie whose records have to be parsed, and how large these are."""
    changed = (name for name, state in shelf.records.items() if name not in kept or kept[name].state != state)
    return [(shelf.path(name), shelf.records[name][2]) for name in changed]


def _parse_all(results: Path, unknown: list[tuple[str, int]]) -> dict[str, tuple[bytes, str]]:
    """Parse records; the answer for each is its encoded summary, or why there is none."""

    def parse(paths: list[str]) -> bytes:
        return _encode([_parse(results, path) for path in paths])

    small = [path for path, size in unknown if size <= LARGEST_IN_PARALLEL]
    large = [path for path, size in unknown if size > LARGEST_IN_PARALLEL]
    answers = [*in_shares(parse, small, FEWEST_IN_PARALLEL), parse(large)]
    return dict(zip([*small, *large], (one for answer in answers for one in _decode_parsed(answer)), strict=True))


def _parse(results: Path, path: str) -> tuple[bytes, str]:
    try:
        record = read_record(read_file(results / path / RECORD, LARGEST_RECORD, below=results))
        return _encode(summary_of(record)), ""
    except BROKEN as error:
        return b"", one_line(getattr(error, "strerror", None) or error) or type(error).__name__


def _with_fate(run: RunSummary, results: Path) -> RunSummary:
    """Find out what became of a record that still says `running`; nothing is written."""
    if run.by_hand:
        return _derived(run, results)
    from runner.records.provenance import is_alive  # noqa: PLC0415 - rarely needed, and psutil takes its time

    if is_alive(run.runner) is not False:
        return run
    status, reason = NO_OUTCOME
    if is_file(results / run.path / "raw" / "outcome.json"):
        reason = "the run ended and its record was not written"
    return msgspec.structs.replace(run, status=status, reason=reason)


def _derived(run: RunSummary, results: Path) -> RunSummary:
    """Make the record of a run that was started by hand, in memory, until somebody collects it."""
    from runner.records.finalize import MOST_BYTES_IN_MEMORY, derive  # noqa: PLC0415 - rarely needed

    try:
        record = derive(RunFolder(results / run.path), MOST_BYTES_IN_MEMORY)
        return msgspec.structs.replace(summary_of(record), path=run.path) if record else run
    except BROKEN as error:
        words = one_line(getattr(error, "strerror", None) or error)
        return msgspec.structs.replace(run, status="incomplete", reason=f"started by hand and not collected: {words}")
