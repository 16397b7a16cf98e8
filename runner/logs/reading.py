"""A log -> its facts: the way from bytes to values.

Every pattern has texts that stand in each of its matches. A few short fragments cover the texts of all patterns, so
that a block is searched once for each fragment, and most lines of a log are never looked at.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from runner.logs import mlperf, origin
from runner.logs.dialect import PLAIN, Dialect, Pattern, built_in
from runner.logs.facts import Facts, Record
from runner.logs.lines import LONGEST, Block, Lines, text_of
from runner.logs.metrics import Metric
from runner.logs.pattern import LINE
from trainkit import files

_MASK = bytes.maketrans(b"123456789", b"0" * 9)
"""Makes one line of all that differ in their digits alone."""
_COMMON = (b"poch", b"loss", b"ccura", b"acc", b"Loss", b"raining", b"rror: ", mlperf.MARK)
"""Fragments that many texts have."""
_LONGEST_FRAGMENT = 40
_MOST_KNOWN = 20_000
_LONGEST_KNOWN = 1_000
_REPLACED = {"train_loss", "step", "steps", "done", "total", "throughput", "epoch", "epochs"}
"""Fields of which the last value of a writer counts, in one epoch."""


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

    readers: tuple[Pattern | Metric, ...] = ()
    fixed: tuple[slice, ...] = ()
    """Where lines have to be the same that can only replace each other's values: their prefix and epoch."""
    place: slice | None = None
    """How far the training is, which must not go back."""
    unless: tuple[Pattern, ...] = ()
    """Patterns whose match in a line keeps it from being left out."""
    pattern: int = 0
    """Which pattern reads the values that are replaced."""
    is_event: bool = False


def read_log(
    path: Path,
    dialects: Iterable[Dialect] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> Reading:
    """Read a regular file as far as it goes now; OSError if it is none, or a link."""
    with files.open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        reading = read_stream(file.read, dialects, size, metrics)
        if os.fstat(file.fileno()).st_size > size:
            reading.notes.append(f"the file grew while it was read; its first {size:,} bytes were")
    return reading


def read_stream(
    read: Callable[[int], bytes],
    dialects: Iterable[Dialect] | None = None,
    most: int | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> Reading:
    """Read a log in blocks: what a function returns, to its end or as many bytes at most."""
    reader = _Reader(built_in() if dialects is None else tuple(dialects), metrics or {})
    lines, tail = Lines(read, most), b""
    for block in lines.blocks():
        tail = (tail + block.data)[-LONGEST:]
        reader.read(block)
    facts = reader.finished()
    notes = [*lines.notes]
    if not lines.bytes:
        notes.append("it is empty")
    elif not (facts.dialects or lines.is_unreadable):
        notes.append("no line of it is in a known dialect; `docs/dialects.md` shows them and how to add one")
    if cut := reader.cut + lines.cut:
        notes.append(f"{cut} lines are too long: only the beginning of each was looked at")
    if lines.bytes and not (lines.ends_with_newline or lines.is_unreadable):
        notes.append("the last line has no newline: it may be torn")
    count = lines.line - (lines.ends_with_newline or not lines.bytes)
    last = list(enumerate(text_of(tail).split("\n"), lines.line - tail.count(b"\n")))
    return Reading(facts, lines.bytes, count, notes, last, metrics or {})


class _Reader:
    """Reads the lines that patterns may match."""

    def __init__(self, dialects: tuple[Dialect, ...], metrics: Mapping[str, Metric]) -> None:
        self.cut = 0
        """How many lines were read only at their beginning."""
        self._facts = Facts()
        self._plain: Facts | None = Facts() if any(dialect.name == PLAIN for dialect in dialects) else None
        """What dialects and `plain` have read, until a dialect reads a line of the training."""
        patterns = [pattern for dialect in dialects for pattern in dialect.patterns]
        self._fragments: dict[bytes, list[tuple[bytes, Pattern | Metric]]] = {fragment: [] for fragment in _COMMON}
        readers: list[Pattern | Metric] = [*patterns, *metrics.values()]
        for reader in sorted(readers, key=lambda reader: len(reader.literals[0])):
            texts = [text.encode() for text in reader.literals]
            known = (fragment for fragment in self._fragments for text in texts if fragment in text)
            fragment = next(known, texts[0][:_LONGEST_FRAGMENT].strip() or texts[0])  # blanks take longer to search for
            self._fragments.setdefault(fragment, []).append((texts[0].translate(_MASK), reader))
        self._known: dict[bytes, _Kind] = {}
        """What may match lines that differ in their digits alone."""
        self._above = b""

    def finished(self) -> Facts:
        """Return the facts, after the last block."""
        facts = self._plain if self._plain and PLAIN in self._plain.dialects else self._facts
        facts.settle()
        return facts

    def read(self, block: Block) -> None:
        """Read the lines of a block, which are counted as in the file."""
        data = block.data
        # A carriage return ends a line here, of the same length.
        text = data.replace(b"\r\n", b" \n").replace(b"\r", b"\n") if b"\r" in data else data
        number, counted = block.line, 0
        hits = _hits(text, self._fragments)
        for start, kind, lines in self._needed(text, hits):
            line = text[start : hits[start]]
            number += data.count(b"\n", counted, start)
            counted = start
            self.cut += len(line) > LONGEST
            who, rest = origin.split(text_of(line[:LONGEST]))
            if kind.is_event:
                self._read_events(Record(number, rest, who))
            above = (self._above + text[max(0, start - LINE) : start])[-LINE:]
            for record in self._records(kind.readers, Record(number, rest, who, lines=lines), above):
                self._add(record)
        self._above = text[-LINE:]

    def _needed(self, text: bytes, hits: dict[int, int]) -> Iterator[tuple[int, _Kind, int]]:
        """Yield where lines begin, and how many each stands for: of lines that only replace values first and last."""
        places: dict[tuple[object, ...], int] = {}
        held: dict[tuple[object, ...], tuple[int, _Kind, int]] = {}
        for start in sorted(hits):
            line = text[start : hits[start]]
            kind = self._kind(line)
            if not (kind.readers or kind.is_event):
                continue
            key = (kind.pattern, *[line[part] for part in kind.fixed]) if kind.fixed else ()
            if key and any(pattern.matches(text_of(line[kind.fixed[0].stop :])) for pattern in kind.unless):
                key = ()
            place = int(line[kind.place]) if key and kind.place else 0
            if key in places and place >= places[key]:
                places[key] = place
                held[key] = start, kind, held[key][2] + 1 if key in held else 1
                continue
            yield from sorted(held.values(), key=itemgetter(0))
            yield start, kind, 1
            held.clear()
            if key:
                places[key] = place
            else:
                places.clear()
        yield from sorted(held.values(), key=itemgetter(0))

    def _kind(self, line: bytes) -> _Kind:
        if mlperf.MARK in line:
            return _Kind(is_event=mlperf.is_of_use(line))
        masked = line.translate(_MASK)
        if (known := self._known.get(masked)) is not None:
            return known
        text = origin.split(text_of(line[:LONGEST]))[1]
        readers = tuple(
            reader
            for fragment, pairs in self._fragments.items()
            if pairs and fragment.translate(_MASK) in masked
            for literal, reader in pairs
            if literal in masked and (isinstance(reader, Metric) or not reader.takes_any_digits or reader.matches(text))
        )
        kind = _Kind(readers) if not line.isascii() else _kind_of(readers, len(line), text)
        if len(line) <= _LONGEST_KNOWN:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            self._known[masked] = kind
        return kind

    def _read_events(self, record: Record) -> None:
        for event in mlperf.events(record.text):
            self._facts.add_event(event, replace(record, values={}))
            self._plain = None

    def _records(self, readers: tuple[Pattern | Metric, ...], line: Record, above: bytes) -> Iterable[Record]:
        """Return what each dialect reads in a line; what `plain` reads counts where no other dialect reads it."""
        records: dict[str, Record] = {}
        for reader in readers:
            if isinstance(reader, Metric):
                reader.add(line.text, line.line, line.origin.writer)
                continue
            name, said = reader.dialect.name, reader.line
            if (self._plain is None and name == PLAIN) or not reader.fits_after(text_of(above)):
                continue
            for match in reader.matches(line.text):
                values, has_cut = reader.read(match, line.line)
                new = Record(line.line, line.text, line.origin, name, reader.dialect.best, line.lines)
                record = records.setdefault(name, new)
                if any(key in record.values and record.values[key].value != values[key].value for key in values):
                    self._add(record)  # two lines in one
                    record = records[name] = new
                record.values |= values
                record.wrong += ["a number of it was read only up to its comma, point or blank"] * has_cut
                if said.says:
                    record.says.add(said.says)
                    record.weak |= {said.says} if said.weak else set()
        if len(records) > 1:
            records.pop(PLAIN, None)
        return records.values()

    def _add(self, record: Record) -> None:
        record.finish()
        if record.dialect != PLAIN and (record.trains or "run_loss" in record.values):
            self._plain = None
        if self._plain:
            self._plain.add(record)
        if record.dialect != PLAIN:
            self._facts.add(record)


def _kind_of(readers: tuple[Pattern | Metric, ...], length: int, text: str) -> _Kind:
    """Return what has to be the same in lines whose values only replace each other; else nothing but their readers."""
    unless = tuple(one for one in readers if isinstance(one, Pattern) and not one.takes_any_digits)
    rest = [one for one in readers if one not in unless]
    if len(rest) != 1 or not isinstance(rest[0], Pattern):
        return _Kind(readers)
    pattern = rest[0]
    found = pattern.matches(text)
    names = pattern.regex.groupindex.keys()
    if len(found) != 1 or names - _REPLACED or pattern.line.says or pattern.after:
        return _Kind(readers)
    begin = length - len(text)
    places = {name: slice(*(begin + at for at in found[0].span(name))) for name in names if found[0][name]}
    place = places.get("done") or places.get("step")
    if place and not text[place.start - begin : place.stop - begin].isdigit():
        return _Kind(readers)
    fixed = [slice(begin), *(places[name] for name in ("epoch", "epochs", "total") if name in places)]
    return _Kind(readers, tuple(fixed), place, unless, id(pattern))


def _hits(text: bytes, fragments: Iterable[bytes]) -> dict[int, int]:
    """Return, by where a line with a fragment begins, where it ends."""
    find, rfind, size = text.find, text.rfind, len(text)
    hits: dict[int, int] = {}
    for fragment in fragments:
        at = find(fragment)
        end = 0
        while at >= 0:
            start = rfind(b"\n", end, at) + 1 or end
            end = hits.get(start, -1)
            if end < 0:
                end = find(b"\n", at)
                end = hits[start] = size if end < 0 else end
            at = find(fragment, end)
    return hits
