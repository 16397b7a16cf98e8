"""A log -> its facts: the way from bytes to fields."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from runner.logs import mlperf, origin
from runner.logs.dates import WINDOW, Date, dates
from runner.logs.dialect import GENERAL, MLPERF, Dialect, built_in
from runner.logs.explanation import Explanation
from runner.logs.facts import Facts
from runner.logs.general import PLACES
from runner.logs.lines import Block, Lines, text_of
from runner.logs.pattern import LINE
from runner.logs.record import Record
from runner.logs.scan import Candidate, Scanner
from runner.logs.series import General
from runner.logs.tail import Tail
from trainkit import files


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
    tail: Tail = field(default_factory=Tail, repr=False)


def read_log(path: Path, dialects: Iterable[Dialect] | None = None, explanation: Explanation | None = None) -> Reading:
    """Read a regular file as far as it goes now; OSError if it is none, or a link."""
    with files.open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        reading = read_stream(file.read, dialects, size, explanation)
        if os.fstat(file.fileno()).st_size > size:
            reading.notes.append(f"the file grew while it was read; its first {size:,} bytes were")
    return reading


def read_file_object(file: BinaryIO, dialects: Iterable[Dialect] | None = None) -> Reading:
    """Read an open file to its end, for example stdin."""
    return read_stream(file.read, dialects)


def read_stream(
    read: Callable[[int], bytes],
    dialects: Iterable[Dialect] | None = None,
    most: int | None = None,
    explanation: Explanation | None = None,
) -> Reading:
    """Read a log in blocks."""
    reader = _Reader(built_in() if dialects is None else tuple(dialects), explanation)
    lines, reading = Lines(read, most), Reading()
    for block in lines.blocks():
        if not reading.bytes:
            reading.bytes = len(block.data)
            _keep(reading, dates(text_of(block.data[:WINDOW]), block.line))
        reading.tail.add(block)
        reader.add(block)
    reading.facts = reader.finished()
    _keep(reading, reading.tail.dates)
    reading.bytes = lines.bytes
    reading.lines = lines.line - (lines.ends_with_newline or not lines.bytes)
    reading.notes = [*_notes(lines, reader.cut, reading.facts), *reader.general.notes]
    return reading


class _Reader:
    """Reads the lines that dialects may know, and those that say something without one."""

    def __init__(self, dialects: tuple[Dialect, ...], explanation: Explanation | None) -> None:
        self.facts = Facts()
        self.cut = 0
        """How many lines were read only at their beginning."""
        self._explanation = explanation
        self.general = General(is_on=any(dialect.name == GENERAL for dialect in dialects), explanation=explanation)
        patterns = (pattern for dialect in dialects for pattern in dialect.patterns)
        is_general = self.general.is_on
        self._scanner = Scanner(patterns, self._begin, is_general=is_general, reads_all=explanation is not None)
        self._budgets = [dialect.budget for dialect in dialects if dialect.budget]
        for budget in self._budgets:
            budget.begin()

    def add(self, block: Block) -> None:
        """Read a block, or keep it until it is known whether it is among the last."""
        for budget in self._budgets:
            budget.add_bytes(len(block.data))
        self._read_all(self._scanner.candidates(block))

    def finished(self) -> Facts:
        """Read the last blocks and return the facts."""
        self._read_all(self._scanner.rest())
        if self._explanation:
            self._explanation.begin(None)
        return self.general.result() or self.facts

    def _begin(self, block: Block) -> None:
        if self._explanation:
            self._explanation.begin(block)
        self.general.read_rows(block)

    def _read_all(self, candidates: Iterable[Candidate]) -> None:
        for candidate in candidates:
            self.cut += candidate.cut
            self._read(candidate)
            if not self.general.is_on:
                self._scanner.leave_general()

    def _read(self, candidate: Candidate) -> None:
        """Try the patterns that may match a line."""
        who, text = origin.split(candidate.text)
        if not candidate.patterns:
            for event in mlperf.events(candidate.text):
                self.facts.add_event(event, candidate.line, who)
                self.general.stop()
                self._explain(candidate.line, text, MLPERF, "", {event.key: event.value})
        records: dict[str, Record] = {}
        for pattern in candidate.patterns:
            if pattern.after and not pattern.search(origin.split(candidate.before[:LINE])[1], pattern.after):
                continue
            for found in pattern.matches(text):
                values = pattern.fields(found)
                name = pattern.dialect.name
                record = records.get(name)
                self._explain(candidate.line, text, name, pattern.place, values)
                if record is None or any(record.fields.get(key, value) != value for key, value in values.items()):
                    if record is not None:
                        self._add(record)  # two lines in one
                    record = records[name] = Record(candidate.line, text, who, name, pattern.dialect.best)
                    record.lines = candidate.lines
                record.fields |= values
                record.is_cut |= len(values) < len(pattern.regex.groupindex) and pattern.is_cut(found)
                record.units |= pattern.units
                record.weak |= {*values, pattern.says or ""} if pattern.weak else set()
                record.says |= {pattern.says} if pattern.says else set()
                record.scopes |= dict.fromkeys(values, pattern.scope) if pattern.scope else {}
        for record in records.values():
            self._add(record)
        if self.general.is_on and all(record.fields.keys() <= PLACES for record in records.values()):
            self.general.read(candidate, who, text)

    def _add(self, record: Record) -> None:
        self.general.add_known(record)
        self.facts.add(record)

    def _explain(self, line: int, text: str, dialect: str, place: str, values: dict[str, Any]) -> None:
        if self._explanation:
            self._explanation.add(line, text, dialect, place, values)


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
