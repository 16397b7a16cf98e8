"""A log -> its facts: one loop over lines.

Every pattern has texts that stand in each of its matches, so that most lines are only searched for a few fragments.
What patterns may match a line is kept for all lines that differ in their digits alone. Of lines that only replace each
other's values, such as the states of a progress bar, the first and the last are read.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from runner.logs import mlperf, origin
from runner.logs.dialect import PLAIN, Dialect, Pattern, built_in
from runner.logs.facts import Facts, Record
from runner.logs.lines import LONGEST, Block, Lines
from runner.logs.metrics import Metric
from trainkit import files

_MASK = bytes.maketrans(b"123456789", b"0" * 9)
_MARK = mlperf.MARK.encode()
_COMMON = (b"poch", b"loss", b"ccura", b"acc", b"Loss", b"raining", b"rror: ", b"tep", b"orld", b"ime", b"erf", b"alid")
"""Fragments that many texts have."""
_MOST_KNOWN = 20_000
_LONGEST_KNOWN = 1_000
_Match = tuple[Pattern, re.Match[str]]


@dataclass
class Reading:
    """A log that was read."""

    facts: Facts
    bytes: int
    lines: int
    notes: list[str]
    """What kept the log from being read as it is."""
    tail: list[tuple[int, str]]
    """The last lines, each with its number."""
    metrics: Mapping[str, Metric]


class _Kind(NamedTuple):
    """What lines that differ in their digits alone have in common."""

    patterns: list[Pattern]
    metrics: list[Metric]
    begin: int
    """The length of their prefix."""


_EVENTS = _Kind([], [], 0)
"""Events of MLPerf."""


class _Line(NamedTuple):
    """A line that something may read."""

    number: int
    text: str
    kind: _Kind
    above: bytes
    """The last line before it that is not blank."""


def read_log(
    path: Path,
    dialects: Iterable[Dialect] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> Reading:
    """Read a regular file; OSError if it is none, or a link."""
    with files.open_file(path) as file:
        return read_stream(file.read, dialects, metrics)


def read_stream(
    read: Callable[[int], bytes],
    dialects: Iterable[Dialect] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> Reading:
    """Read a log in blocks: what a function returns, to its end."""
    reader = _Reader(built_in() if dialects is None else tuple(dialects), metrics or {})
    lines, tail = Lines(read), b""
    for block in lines.blocks():
        tail = (tail + block.data)[-LONGEST:]
        reader.read(block)
    facts = reader.finished()
    notes = [*lines.notes]
    if not lines.bytes:
        notes.append("it is empty")
    elif not (facts.dialects or lines.is_unreadable):
        notes.append("no line of it is in a known dialect; `docs/dialects.md` shows them and how to add one")
    if lines.cut:
        notes.append(f"{lines.cut} lines are too long: only the beginning of each was looked at")
    if lines.bytes and not (lines.ends_with_newline or lines.is_unreadable):
        notes.append("the last line has no newline: it may be torn")
    count = lines.line - (lines.ends_with_newline or not lines.bytes)
    last = list(enumerate(tail.decode("utf-8", "replace").split("\n"), lines.line - tail.count(b"\n")))
    return Reading(facts, lines.bytes, count, notes, last, metrics or {})


class _Reader:
    """Finds the lines that patterns match, and adds what they say to the facts."""

    def __init__(self, dialects: tuple[Dialect, ...], metrics: Mapping[str, Metric]) -> None:
        self._facts = Facts()
        self._plain: Facts | None = Facts() if any(dialect.name == PLAIN for dialect in dialects) else None
        """What dialects and `plain` have read, until a dialect reads a line of the training."""
        self._metrics = [(_masked(metric), metric) for metric in metrics.values()]
        self._fragments: dict[bytes, list[tuple[bytes, Pattern]]] = {}
        self._patterns = [pattern for dialect in dialects for pattern in dialect.patterns]
        for pattern in self._patterns:
            text = _masked(pattern)
            fragment = next((part for part in _COMMON if part in text), text)
            self._fragments.setdefault(fragment, []).append((text, pattern))
        self._present: list[tuple[bytes, list[tuple[bytes, Pattern]]]] = []
        """The fragments that stand in a block."""
        self._known: dict[bytes, _Kind | None] = {}
        self._above = b""
        self._bar = 0, b""
        """The line of a progress bar, and the prefix that stands once before all of its states."""

    def finished(self) -> Facts:
        """Return the facts, after the last block."""
        facts = self._plain if self._plain and PLAIN in self._plain.dialects else self._facts
        facts.settle()
        return facts

    def read(self, block: Block) -> None:
        """Read the lines of a block."""
        places: dict[tuple[object, ...], int] = {}
        held: dict[tuple[object, ...], tuple[_Line, list[_Match], int]] = {}
        """The last line of each kind that replaces others, and how many it stands for."""
        masked = block.data.translate(_MASK)
        self._present = [(fragment, readers) for fragment, readers in self._fragments.items() if fragment in masked]
        for line in self._lines(block):
            text = line.text[line.kind.begin :]
            found = [(one, match) for one in line.kind.patterns for match in one.matches(text, line.above)]
            if not (found or line.kind.metrics or line.kind is _EVENTS):
                continue
            key, place = _replaced(line, found) if len(found) == 1 else ((), 0)
            if key and place >= places.get(key, place + 1):
                places[key] = place
                held[key] = line, found, held.pop(key)[2] + 1 if key in held else 1
                continue
            for one in held.values():
                self._take(*one)
            held.clear()
            self._take(line, found, 1)
            places = places | {key: place} if key else {}
        for one in held.values():
            self._take(*one)

    def _lines(self, block: Block) -> Iterator[_Line]:
        """Yield the lines that something may read. A carriage return ends a line as well, but is not counted."""
        for number, whole in enumerate(block.data.split(b"\n"), block.line):
            lines = [whole]
            if b"\r" in whole or number == self._bar[0]:
                lines = [state for state in whole.split(b"\r") if state]
                if len(lines) > 1 and number != self._bar[0]:
                    text = lines[0].decode("utf-8", "replace")
                    self._bar = number, text[: len(text) - len(origin.split(text)[1])].encode()
                    lines[0] = lines[0][len(self._bar[1]) :]
                if number == self._bar[0]:
                    lines = [self._bar[1] + state for state in lines]
            for line in lines:
                if kind := self._kind(line):
                    yield _Line(number, line.decode("utf-8", "replace"), kind, self._above)
                if line and not line.isspace():
                    self._above = line

    def _kind(self, line: bytes) -> _Kind | None:
        if _MARK in line:
            return _EVENTS if mlperf.is_of_use(line) else None
        masked = line.translate(_MASK)
        if masked in self._known:
            return self._known[masked]
        patterns = {
            pattern
            for fragment, pairs in self._present
            if fragment in masked
            for literal, pattern in pairs
            if literal in masked and (self._plain or pattern.dialect.name != PLAIN)
        }
        metrics = [metric for literal, metric in self._metrics if literal in masked]
        kind = None
        if patterns or metrics:
            text = line.decode("utf-8", "replace")
            rest = origin.split(text)[1]
            matching = (one for one in patterns if not one.takes_any_digits or next(one.matches(rest), None))
            ordered = sorted(matching, key=self._patterns.index)  # of two dialects the last one counts
            kind = _Kind(ordered, metrics, len(text) - len(rest)) if ordered or metrics else None
        if len(line) <= _LONGEST_KNOWN:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            self._known[masked] = kind
        return kind

    def _take(self, line: _Line, found: list[_Match], count: int) -> None:
        """Add what each dialect reads in a line; what `plain` reads counts where no other dialect reads it."""
        who, text = origin.split(line.text)
        if line.kind is _EVENTS:
            for event in mlperf.events(text):
                self._facts.add_event(event, Record(line.number, text, who))
                self._plain = None
        for metric in line.kind.metrics:
            metric.add(text, line.number, who.writer)
        records: dict[str, Record] = {}
        for pattern, match in found:
            name = pattern.dialect.name
            values, has_cut = pattern.read(match, line.number)
            new = Record(line.number, text, who, name, pattern.dialect.best, count)
            record = records.setdefault(name, new)
            if any(key in record.values and record.values[key].value != values[key].value for key in values):
                self._add(record)  # two lines in one
                record = records[name] = new
            record.values |= values
            record.wrong += ["a number of it was read only up to its comma, point or blank"] * has_cut
            if says := pattern.line.says:
                record.says.add(says)
                record.weak |= {says} if pattern.line.weak else set()
        if len(records) > 1:
            records.pop(PLAIN, None)
        for record in records.values():
            self._add(record)

    def _add(self, record: Record) -> None:
        record.finish()
        if self._plain and record.dialect != PLAIN and (record.trains or "run_loss" in record.values):
            self._plain = None
            self._known.clear()
        if self._plain:
            self._plain.add(record)
        if record.dialect != PLAIN:
            self._facts.add(record)


def _masked(reader: Pattern | Metric) -> bytes:
    return reader.literals[0].encode().translate(_MASK)


def _replaced(line: _Line, found: list[_Match]) -> tuple[tuple[object, ...], int]:
    """Return what is the same in lines that replace each other's values, and their place; nothing for other lines."""
    pattern, match = found[0]
    said = match.groupdict()
    place = (said.get("done") or said.get("step") or "0").replace(",", "")
    if line.kind.metrics or not (pattern.is_replaced and place.isdecimal()):
        return (), 0
    prefix = line.text[: line.kind.begin]
    return (pattern, prefix, said.get("epoch"), said.get("epochs"), said.get("total")), int(place)
