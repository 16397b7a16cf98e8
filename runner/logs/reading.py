"""A log -> its facts: the way from bytes to fields."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner.logs import mlperf, origin
from runner.logs.dialect import GENERAL, MLPERF, Dialect, built_in
from runner.logs.endings import WINDOW, Date, Tail, dates
from runner.logs.explanation import Explanation
from runner.logs.facts import Facts
from runner.logs.figures import PLACES
from runner.logs.general import Explain, General
from runner.logs.lines import Block, Lines, text_of
from runner.logs.scan import Candidate, Scanner, with_ends
from runner.logs.values import Record
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


def read_stream(
    read: Callable[[int], bytes],
    dialects: Iterable[Dialect] | None = None,
    most: int | None = None,
    explanation: Explanation | None = None,
) -> Reading:
    """Read a log in blocks: what a function returns, to its end or as many bytes at most."""
    reader = _Reader(built_in() if dialects is None else tuple(dialects), explanation)
    lines, tail, first_dates = Lines(read, most), Tail(), None
    for block, at_end in with_ends(lines.blocks()):
        if first_dates is None:
            first_dates = dates(text_of(block.data[:WINDOW]), block.line)
        tail.add(block)
        reader.read(block, at_end=at_end)
    facts = reader.finished()
    found = [*(first_dates or []), *tail.dates]
    return Reading(
        facts,
        [found[0], found[-1]] if found else [],
        lines.bytes,
        lines.line - (lines.ends_with_newline or not lines.bytes),
        [*_notes(lines, reader.cut, facts), *reader.general.notes],
        tail,
    )


class _Reader:
    """Reads the lines that dialects may know, and those that say something without one."""

    def __init__(self, dialects: tuple[Dialect, ...], explanation: Explanation | None) -> None:
        self.cut = 0
        """How many lines were read only at their beginning."""
        self._facts = Facts()
        self._explanation = explanation
        is_general = any(dialect.name == GENERAL for dialect in dialects)
        self._explain: Explain = explanation.add if explanation else lambda *_: None
        self.general = General(self._explain, is_on=is_general)
        patterns = (pattern for dialect in dialects for pattern in dialect.patterns)
        self._scanner = Scanner(patterns, is_general=is_general, reads_all=explanation is not None)
        self._budgets = [dialect.budget for dialect in dialects if dialect.budget]
        for budget in self._budgets:
            budget.begin()

    def read(self, block: Block, *, at_end: bool) -> None:
        """Read a block; blocks come in their order."""
        for budget in self._budgets:
            budget.add_bytes(len(block.data))
        if self._explanation:
            self._explanation.begin(block)
        self.general.read_rows(block)
        for candidate in self._scanner.candidates(block, at_end=at_end):
            self.cut += candidate.cut
            self._read(candidate)
            if not self.general.is_on:
                self._scanner.leave_general()

    def finished(self) -> Facts:
        """Return the facts, after the last block."""
        if self._explanation:
            self._explanation.begin(None)
        facts = self.general.result() or self._facts
        facts.settle()
        return facts

    def _read(self, candidate: Candidate) -> None:
        """Try the patterns that may match a line."""
        who, text = origin.split(candidate.text)
        if not candidate.patterns:
            for event in mlperf.events(candidate.text):
                self._facts.add_event(event, candidate.line, who)
                self.general.stop()
                self._explain(candidate.line, text, MLPERF, "", {event.key: event.value})
        records: dict[str, Record] = {}
        for pattern in candidate.patterns:
            for match in pattern.matches(text) if pattern.fits_after(candidate.above) else ():
                values = pattern.fields(match)
                name = pattern.dialect.name
                record = records.get(name)
                self._explain(candidate.line, text, name, pattern.place, values)
                if record is None or any(record.fields.get(key, value) != value for key, value in values.items()):
                    if record is not None:
                        self._add(record)  # two lines in one
                    record = records[name] = Record(candidate.line, text, who, name, pattern.dialect.best)
                    record.lines = candidate.lines
                record.fields |= values
                record.is_cut |= len(values) < len(pattern.regex.groupindex) and pattern.is_cut(match)
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
        self._facts.add(record)


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
