"""A log -> its facts: the way from bytes to fields."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.logs import mlperf, origin
from runner.logs.dialect import MLPERF, PLAIN, Dialect, built_in
from runner.logs.explanation import Explanation
from runner.logs.facts import Facts
from runner.logs.lines import Lines, Tail
from runner.logs.metrics import Metric
from runner.logs.origin import Origin
from runner.logs.scan import Candidate, Scanner
from runner.logs.values import Record
from trainkit import files


@dataclass
class Reading:
    """A log that was read."""

    facts: Facts = field(default_factory=Facts)
    bytes: int = 0
    lines: int = 0
    notes: list[str] = field(default_factory=list)
    """What kept the log from being read as it is."""
    tail: Tail = field(default_factory=Tail, repr=False)
    metrics: Mapping[str, Metric] = field(default_factory=dict)


def read_log(
    path: Path,
    dialects: Iterable[Dialect] | None = None,
    explanation: Explanation | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> Reading:
    """Read a regular file as far as it goes now; OSError if it is none, or a link."""
    with files.open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        reading = read_stream(file.read, dialects, size, explanation, metrics)
        if os.fstat(file.fileno()).st_size > size:
            reading.notes.append(f"the file grew while it was read; its first {size:,} bytes were")
    return reading


def read_stream(
    read: Callable[[int], bytes],
    dialects: Iterable[Dialect] | None = None,
    most: int | None = None,
    explanation: Explanation | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> Reading:
    """Read a log in blocks: what a function returns, to its end or as many bytes at most."""
    metrics = metrics or {}
    reader = _Reader(built_in() if dialects is None else tuple(dialects), explanation, metrics)
    lines, tail = Lines(read, most), Tail()
    for block in lines.blocks():
        tail.add(block)
        if explanation:
            explanation.begin(block)
        for candidate in reader.scanner.candidates(block):
            reader.read(candidate)
    if explanation:
        explanation.begin(None)
    facts = reader.finished()
    count = lines.line - (lines.ends_with_newline or not lines.bytes)
    return Reading(facts, lines.bytes, count, list(_notes(lines, reader.cut, facts)), tail, metrics)


class _Reader:
    """Reads the lines that dialects may know."""

    def __init__(
        self, dialects: tuple[Dialect, ...], explanation: Explanation | None, metrics: Mapping[str, Metric]
    ) -> None:
        self.cut = 0
        """How many lines were read only at their beginning."""
        patterns = [pattern for dialect in dialects for pattern in dialect.patterns]
        self.scanner = Scanner([*patterns, *metrics.values()], reads_all=explanation is not None)
        self._facts = Facts()
        self._plain: Facts | None = Facts() if any(dialect.name == PLAIN for dialect in dialects) else None
        """What dialects and `plain` have read, until a dialect reads a line of the training."""
        self._explain: Callable[[int, str, str, str, dict[str, Any]], None] = (
            explanation.add if explanation else lambda *_: None
        )

    def finished(self) -> Facts:
        """Return the facts, after the last block."""
        facts = self._plain if self._plain and PLAIN in self._plain.dialects else self._facts
        facts.settle()
        return facts

    def read(self, candidate: Candidate) -> None:
        """Try the patterns that may match a line."""
        self.cut += candidate.cut
        who, text = origin.split(candidate.text)
        if candidate.is_event:
            for event in mlperf.events(candidate.text):
                self._facts.add_event(event, candidate.line, who)
                self._plain = None
                self._explain(candidate.line, text, MLPERF, "", {event.key: event.value})
        for record in self._records(candidate, who, text).values():
            self._add(record)

    def _records(self, candidate: Candidate, who: Origin, text: str) -> dict[str, Record]:
        """Return what each dialect reads in a line; what `plain` reads counts where no other dialect reads it."""
        records: dict[str, Record] = {}
        for pattern in candidate.patterns:
            if isinstance(pattern, Metric):
                pattern.add(text, candidate.line, who.writer)
                continue
            name = pattern.dialect.name
            if self._plain is None and name == PLAIN:
                continue
            for match in pattern.matches(text) if pattern.fits_after(candidate.above) else ():
                values = pattern.fields(match)
                self._explain(candidate.line, text, name, pattern.place, values)
                fields = records[name].fields if name in records else {}
                if name in records and any(fields.get(key, value) != value for key, value in values.items()):
                    self._add(records.pop(name))  # two lines in one
                new = Record(candidate.line, text, who, name, pattern.dialect.best, lines=candidate.lines)
                record = records.setdefault(name, new)
                record.fields |= values
                record.is_cut |= len(values) < len(pattern.regex.groupindex) and pattern.is_cut(match)
                record.units |= pattern.units
                record.weak |= {*values, pattern.says or ""} if pattern.weak else set()
                record.says |= {pattern.says} if pattern.says else set()
                record.scopes |= dict.fromkeys(values, pattern.scope) if pattern.scope else {}
        return records if len(records) == 1 else {name: one for name, one in records.items() if name != PLAIN}

    def _add(self, record: Record) -> None:
        if record.dialect != PLAIN:
            if record.trains or "run_loss" in record.fields:
                self._plain = None
            if self._plain:
                self._plain.add(record.duplicate())
            self._facts.add(record)
        elif self._plain:
            self._plain.add(record)


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
