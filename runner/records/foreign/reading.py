"""A log -> its facts: the way from bytes to fields."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from runner.records.foreign import mlperf, origin
from runner.records.foreign.dates import WINDOW, Date, dates
from runner.records.foreign.dialect import GENERAL, built_in
from runner.records.foreign.facts import Facts
from runner.records.foreign.lines import Lines, text_of
from runner.records.foreign.pattern import LINE
from runner.records.foreign.record import Record
from runner.records.foreign.scan import Scanner
from runner.records.foreign.series import General
from trainkit import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from runner.records.foreign.dialect import Dialect
    from runner.records.foreign.lines import Block
    from runner.records.foreign.scan import Candidate


@dataclass
class Reading:
    """A log that was read."""

    facts: Facts = field(default_factory=Facts)
    dates: list[Date] = field(default_factory=list)
    """The first and the last date of a job script."""
    bytes: int = 0
    lines: int = 0
    notes: list[str] = field(default_factory=list)
    """What kept the log from being read as it is."""


def read_log(path: Path, dialects: Iterable[Dialect] | None = None) -> Reading:
    """Read a regular file as far as it goes now; OSError if it is none, or a link."""
    with files.open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        reading = read_stream(file.read, dialects, size)
        if os.fstat(file.fileno()).st_size > size:
            reading.notes.append(f"the file grew while it was read; its first {size:,} bytes were")
    return reading


def read_file_object(file: BinaryIO, dialects: Iterable[Dialect] | None = None) -> Reading:
    """Read an open file to its end, for example stdin."""
    return read_stream(file.read, dialects)


def read_stream(
    read: Callable[[int], bytes], dialects: Iterable[Dialect] | None = None, most: int | None = None
) -> Reading:
    """Read a log in blocks."""
    dialects = built_in() if dialects is None else tuple(dialects)
    general = General(is_on=any(dialect.name == GENERAL for dialect in dialects))
    patterns = (pattern for dialect in dialects for pattern in dialect.patterns)
    scanner = Scanner(patterns, is_general=general.is_on)
    budgets = [dialect.budget for dialect in dialects if dialect.budget]
    for budget in budgets:
        budget.begin()
    lines, reading, tail = Lines(read, most), Reading(), _Tail()
    scanner.begin = general.read_rows
    cut = 0

    def read_all(candidates: Iterable[Candidate]) -> int:
        count = 0
        for candidate in candidates:
            count += candidate.cut
            _read_candidate(candidate, reading.facts, general)
            if not general.is_on:
                scanner.leave_general()
        return count

    for block in lines.blocks():
        if not reading.bytes:
            reading.bytes = len(block.data)
            _keep(reading, dates(text_of(block.data[:WINDOW]), block.line))
        tail.add(block)
        for budget in budgets:
            budget.add_bytes(len(block.data))
        cut += read_all(scanner.candidates(block))
    cut += read_all(scanner.rest())
    reading.facts = general.result() or reading.facts
    _keep(reading, tail.dates(lines.line))
    reading.bytes = lines.bytes
    reading.lines = lines.line - (lines.ends_with_newline or not lines.bytes)
    reading.notes = [*_notes(lines, cut, reading.facts), *general.notes]
    return reading


def _read_candidate(candidate: Candidate, facts: Facts, general: General) -> None:
    """Try the patterns that may match a line."""
    who, text = origin.split(candidate.text)
    if not candidate.patterns:
        for event in mlperf.events(candidate.text):
            facts.add_event(event, candidate.line, who)
            general.stop()
    records: dict[str, Record] = {}
    for pattern in candidate.patterns:
        if pattern.after and not pattern.search(origin.split(candidate.before[:LINE])[1], pattern.after):
            continue
        for found in pattern.matches(text):
            values = pattern.fields(found)
            name = pattern.dialect.name
            record = records.get(name)
            if record is None or any(record.fields.get(key, value) != value for key, value in values.items()):
                if record is not None:
                    general.add_known(record)
                    facts.add(record)  # two lines in one
                record = records[name] = Record(candidate.line, text, who, name, pattern.dialect.best)
                record.lines = candidate.lines
            record.fields |= values
            record.is_cut |= len(values) < len(pattern.regex.groupindex) and pattern.is_cut(found)
            record.units |= pattern.units
            record.weak |= {*values, pattern.says or ""} if pattern.weak else set()
            record.says |= {pattern.says} if pattern.says else set()
            record.scopes |= dict.fromkeys(values, pattern.scope) if pattern.scope else {}
    for record in records.values():
        general.add_known(record)
        facts.add(record)
    if not records and general.is_on:
        general.read(candidate, who, text)


class _Tail:
    """The last bytes of a log."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, block: Block) -> None:
        data = self._data + block.data if len(block.data) < WINDOW else block.data
        self._data = data[-WINDOW:]

    def dates(self, line: int) -> list[Date]:
        """Return the dates in them; the number is that of the line after them."""
        return dates(text_of(self._data), line - self._data.count(b"\n"))


def _keep(reading: Reading, found: list[Date]) -> None:
    """Keep the first and the last date."""
    both = [*reading.dates, *found]
    reading.dates = [both[0], both[-1]] if both else []


def _notes(lines: Lines, cut: int, facts: Facts) -> Iterator[str]:
    if lines.unreadable:
        yield lines.unreadable
    elif not lines.bytes:
        yield "it is empty"
    elif not facts.dialects:
        yield "no line of it is in a known dialect; `docs/dialects.md` shows them and how to add one"
    if lines.encoding:
        yield f"it is not UTF-8, and was read as {lines.encoding}, which nothing in it names"
    if lines.nuls:
        yield f"{lines.nuls:,} NUL bytes were left out"
    if cut + lines.cut:
        yield f"{cut + lines.cut} lines are too long: only the beginning of each was looked at"
    if lines.bytes and not lines.ends_with_newline and not lines.unreadable:
        yield "the last line has no newline: it may be torn"
