"""Read a log into facts, in one loop over its lines.

For speed, a pattern is tried only on lines that contain a fragment of the pattern. Lines that differ only in digits
share one choice of patterns. If the values of lines replace each other, as in a progress bar, only the first and last
are read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_COMMON = (b"poch", b"oss", b"ccura", b"acc", b"raining", b"rror: ", b"tep", b"orld", b"ime", b"erf", b"alid")
"""Fragments in the fixed texts of many patterns."""
_PLACES = {"epoch", "total", "done", "step"}
_KEPT = 32
"""Number of blocks after which the readers chosen for masked lines are forgotten."""


@dataclass
class Reading:
    """Facts of a log, and how much of the log was read."""

    facts: Facts
    bytes: int
    lines: int
    notes: list[str]
    tail: list[tuple[int, str]]
    """Last lines with their numbers."""
    metrics: Mapping[str, Metric]


class _Kind(NamedTuple):
    """Patterns and metrics for lines that differ only in digits."""

    patterns: list[Pattern]
    metrics: list[Metric]
    replaced: Pattern | None = None
    """Pattern whose values only replace the values of the previous line."""
    same: Sequence[slice] = ()
    """Slices that are equal in lines that replace each other: prefix, epoch and total."""
    place: slice = slice(0)
    """Slice with the position of the training, which must not decrease."""

    def key(self, line: bytes) -> tuple[object, ...]:
        """Return a key that is equal for lines that replace each other. Any other line has the key ()."""
        if not self.replaced:
            return ()
        if len(self.patterns) > 1:
            text = line[self.same[0].stop :].decode()
            if any(one is not self.replaced and next(one.matches(text), None) for one in self.patterns):
                return ()
        return self.replaced, *[line[part] for part in self.same]


_EVENTS = _Kind([], [])


def read_log(
    path: Path,
    dialects: Iterable[Dialect] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> Reading:
    """Read a log from a regular file. Raises OSError if the path is a link or another kind of file."""
    with files.open_file(path) as file:
        return read_stream(file.read, dialects, metrics)


def read_stream(
    read: Callable[[int], bytes],
    dialects: Iterable[Dialect] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> Reading:
    """Read a log from a function that returns up to n bytes, and b'' at the end."""
    reader = _Reader(built_in() if dialects is None else tuple(dialects), metrics or {})
    lines, tail = Lines(read), b""
    for block in lines.blocks():
        tail = (tail + block.data)[-LONGEST:]
        reader.read(block)
    facts = reader.finished()
    notes = [*lines.notes]
    if not lines.bytes:
        notes.append("the log is empty")
    elif not (facts.dialects or lines.is_unreadable):
        notes.append("no line is in a known dialect; see docs/dialects.md for how to add one")
    if lines.cut:
        notes.append(f"{lines.cut} overlong lines: only the beginning of each was read")
    if lines.bytes and not (lines.ends_with_newline or lines.is_unreadable):
        notes.append("the last line has no newline: it may be cut off")
    count = lines.line - (lines.ends_with_newline or not lines.bytes)
    last = list(enumerate(tail.decode("utf-8", "replace").split("\n"), lines.line - tail.count(b"\n")))
    return Reading(facts, lines.bytes, count, notes, last, metrics or {})


class _Reader:
    """Reader that adds the values of matching lines to the facts."""

    def __init__(self, dialects: tuple[Dialect, ...], metrics: Mapping[str, Metric]) -> None:
        self._facts = Facts()
        self._plain: Facts | None = Facts() if any(dialect.name == PLAIN for dialect in dialects) else None
        """Facts including those by the dialect `plain`; None once another dialect reads a line of the training."""
        readers: list[Pattern | Metric] = [one for dialect in dialects for one in dialect.patterns]
        readers += metrics.values()
        self._readers: list[tuple[list[bytes], Pattern | Metric]] = [
            ([text.encode().translate(_MASK) for text in one.literals], one) for one in readers
        ]
        self._fragments: dict[bytes, list[int]] = {_MARK: []}
        """Numbers of the readers to try on lines that contain a fragment."""
        for number, (texts, _) in enumerate(self._readers):
            common = (part for part in _COMMON for text in texts if part in text)
            self._fragments.setdefault(next(common, texts[0]), []).append(number)
        self._kinds: dict[bytes, _Kind | None] = {}
        self._blocks = 0
        self._above = b""
        self._bar = 0, b""
        """Line number of a progress bar, and the prefix that is printed before the first state only."""

    def finished(self) -> Facts:
        """Return the facts after the last block."""
        facts = self._plain if self._plain and PLAIN in self._plain.dialects else self._facts
        facts.settle()
        return facts

    def read(self, block: Block) -> None:
        """Add the lines of a block."""
        text, numbers = self._lines(block)
        lines, masked = text.split(b"\n"), text.translate(_MASK).split(b"\n")
        self._blocks += 1
        if not self._blocks % _KEPT:
            self._kinds = {}
        self._learn(set(masked) - self._kinds.keys())
        kinds = [self._kinds[line] for line in masked]
        if block.is_torn and (last := kinds[-1]) and last.replaced:
            kinds[-1] = last._replace(replaced=None)
        for at, count in _needed(lines, kinds):
            above = next(filter(bytes.strip, map(lines.__getitem__, range(at - 1, -1, -1))), self._above)
            is_torn = block.is_torn and at == len(lines) - 1
            self._take(lines[at], kinds[at] or _EVENTS, numbers[at], above, count, is_torn=is_torn)
        self._above = next(filter(bytes.strip, reversed(lines)), self._above)

    def _lines(self, block: Block) -> tuple[bytes, Sequence[int]]:
        data = block.data.replace(b"\r\n", b"\n")
        if b"\r" not in data and block.line != self._bar[0]:
            return data, range(block.line, block.line + data.count(b"\n") + 1)
        lines, numbers = [], []
        for number, whole in enumerate(data.split(b"\n"), block.line):
            rest = whole.lstrip(b"\r")
            if b"\r" in rest and number != self._bar[0]:
                text = rest.decode("utf-8", "replace")
                self._bar = number, text[: len(text) - len(origin.split(text)[1])].encode()
                rest = rest[len(self._bar[1]) :]
            states = [state for state in rest.split(b"\r") if state]
            lines += [self._bar[1] + state for state in states] if number == self._bar[0] else states
            numbers += [number] * len(states)
        return b"\n".join(lines), numbers

    def _learn(self, masked: set[bytes]) -> None:
        self._kinds.update(dict.fromkeys(masked))
        text = b"\n".join(masked) + b"\n"
        readers: dict[bytes, set[int]] = {}
        for fragment, numbers in self._fragments.items():
            at = text.find(fragment)
            while at >= 0:
                end = text.find(b"\n", at)
                readers.setdefault(text[text.rfind(b"\n", 0, at) + 1 : end], set()).update(numbers)
                at = text.find(fragment, end)
        for line, found in readers.items():
            pairs = [self._readers[number] for number in sorted(found)]  # the later of two dialects counts
            wanted = [reader for texts, reader in pairs if all(text in line for text in texts)]
            if _MARK in line:
                self._kinds[line] = _EVENTS if mlperf.is_of_use(line) else None
            elif wanted:
                self._kinds[line] = self._kind(line, wanted)

    def _kind(self, line: bytes, readers: list[Pattern | Metric]) -> _Kind | None:
        text = line.decode("utf-8", "replace")
        begin = len(text) - len(origin.split(text)[1])
        kind, matches = _Kind([], []), []
        for reader in readers:
            if isinstance(reader, Metric):
                kind.metrics.append(reader)
            elif self._plain or reader.dialect.name != PLAIN:
                found = [(reader, match) for match in reader.matches(text[begin:])] if reader.takes_any_digits else []
                matches += found
                kind.patterns.extend([reader] if found or not reader.takes_any_digits else [])
        if len(matches) != 1 or kind.metrics or not line.isascii():
            return kind if kind.patterns or kind.metrics else None
        ((pattern, match),) = matches
        places = {
            name: slice(begin + match.start(name), begin + match.end(name))
            for name in _PLACES & match.re.groupindex.keys()
        }
        place = places.pop("done", None) or places.pop("step", slice(0))
        if not pattern.is_replaced or pattern.read(match, 0)[1] or b"," in line[place]:
            return kind
        return kind._replace(replaced=pattern, same=[slice(begin), *places.values()], place=place)

    def _take(self, line: bytes, kind: _Kind, number: int, above: bytes, count: int, *, is_torn: bool) -> None:
        who, text = origin.split(line.decode("utf-8", "replace"))
        if kind is _EVENTS:
            for event in mlperf.events(text):
                self._facts.add_event(event, Record(number, text, who))
                self._plain = None
        for metric in kind.metrics:
            metric.add(text, number, who.writer, is_torn=is_torn)
        records: dict[str, Record] = {}
        for pattern, match in [(one, match) for one in kind.patterns for match in one.matches(text, above)]:
            name = pattern.dialect.name
            values, wrong = pattern.read(match, number, is_torn=is_torn)
            new = Record(number, text, who, name, pattern.dialect.best, count)
            record = records.setdefault(name, new)
            if any(key in record.values and record.values[key].value != values[key].value for key in values):
                self._add(record)  # two records in one line
                record = records[name] = new
            record.values |= values
            record.wrong += wrong
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
            self._kinds = {}
        if self._plain:
            self._plain.add(record)
        if record.dialect != PLAIN:
            self._facts.add(record)


def _needed(lines: list[bytes], kinds: list[_Kind | None]) -> Iterator[tuple[int, int]]:
    """Yield the index of each line to read, and the number of lines for which that line stands."""
    places: dict[tuple[object, ...], int] = {}
    held: dict[tuple[object, ...], tuple[int, int]] = {}
    for at, kind in enumerate(kinds):
        if kind is None:
            continue
        key = kind.key(lines[at])
        place = int(lines[at][kind.place] or 0) if key else 0
        if key and place >= places.get(key, place + 1):
            held[key] = at, held[key][1] + 1 if key in held else 1
        else:
            yield from sorted(held.values())
            yield at, 1
            held.clear()
            places = places if key else {}
        places[key] = place
    yield from sorted(held.values())
