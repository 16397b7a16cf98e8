"""A log -> its facts: one loop over lines.

Every pattern has texts that stand in each of its matches, so that most lines are only searched for a few fragments.
What patterns may match a line is kept for all lines that differ in their digits alone. Of lines that only replace each
other's values, such as the states of a progress bar, the first and the last are read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
"""Fragments that many texts have."""
_SAME = ("epoch", "epochs", "total")
_MOST_KEPT, _OVERHEAD = 8_000_000, 150
"""Bytes of the lines that are kept, and what each takes beside its own."""


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
    replaced: Pattern | None = None
    """The one that reads values that only replace those of the line before."""
    same: Sequence[slice] = ()
    """Where such lines have to be equal: their prefix, epoch and total."""
    place: slice = slice(0)
    """How far the training is, which must not go back."""

    def key(self, line: bytes) -> tuple[object, ...]:
        """Return what is the same in lines that replace each other; nothing for other lines."""
        if not self.replaced:
            return ()
        if len(self.patterns) > 1:
            text = line[self.same[0].stop :].decode()
            if any(one is not self.replaced and next(one.matches(text), None) for one in self.patterns):
                return ()
        return self.replaced, *[line[part] for part in self.same]


_EVENTS = _Kind([], [])
"""Events of MLPerf."""


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
        readers: list[Pattern | Metric] = [one for dialect in dialects for one in dialect.patterns]
        readers += metrics.values()
        self._readers: list[tuple[list[bytes], Pattern | Metric]] = [
            ([text.encode().translate(_MASK) for text in one.literals], one) for one in readers
        ]
        self._fragments: dict[bytes, list[int]] = {_MARK: []}
        """Which readers may read a line with a fragment."""
        for number, (texts, _) in enumerate(self._readers):
            common = (part for part in _COMMON for text in texts if part in text)
            self._fragments.setdefault(next(common, texts[0]), []).append(number)
        self._kinds: dict[bytes, _Kind | None] = {}
        self._size = 0
        self._above = b""
        self._bar = 0, b""
        """The line of a progress bar, and the prefix that stands once before all of its states."""

    def finished(self) -> Facts:
        """Return the facts, after the last block."""
        facts = self._plain if self._plain and PLAIN in self._plain.dialects else self._facts
        facts.settle()
        return facts

    def read(self, block: Block) -> None:
        """Read the lines of a block; of those that only replace each other's values the first and the last."""
        text, numbers = self._lines(block)
        lines, masked = text.split(b"\n"), text.translate(_MASK).split(b"\n")
        self._learn(set(masked))
        torn = len(lines) - 1 if block.is_torn else -1
        places: dict[tuple[object, ...], int] = {}
        held: dict[tuple[object, ...], tuple[int, int]] = {}
        """The last line of each kind that replaces others, and how many it stands for."""

        def take(at: int, count: int = 1) -> None:
            kind = kinds[at] or _EVENTS
            above = self._above
            if any(pattern.after for pattern in kind.patterns):
                above = next((line for line in reversed(lines[:at]) if line.strip()), above)
            self._take(lines[at], kind, numbers[at], above, count, is_torn=at == torn)

        kinds = [*map(self._kinds.get, masked)]
        for at, kind in enumerate(kinds):
            if kind is None:
                continue
            key = kind.key(lines[at]) if at != torn else ()
            place = int(lines[at][kind.place] or 0) if key else 0
            if key and place >= places.get(key, place + 1):
                places[key] = place
                held[key] = at, held[key][1] + 1 if key in held else 1
                continue
            for one in sorted(held.values()):
                take(*one)
            held.clear()
            take(at)
            if key:
                places[key] = place
            else:
                places.clear()
        for one in sorted(held.values()):
            take(*one)
        self._above = next((line for line in reversed(lines) if line.strip()), self._above)

    def _lines(self, block: Block) -> tuple[bytes, Sequence[int]]:
        """Return lines with their numbers. A carriage return ends a line as well, but is not counted."""
        data = block.data.replace(b"\r\n", b"\n")
        if b"\r" not in data and block.line != self._bar[0]:
            return data, range(block.line, block.line + data.count(b"\n") + 1)
        lines, numbers = [], []
        for number, whole in enumerate(data.split(b"\n"), block.line):
            states = [state for state in whole.split(b"\r") if state] or [b""]
            if len(states) > 1 and number != self._bar[0]:
                text = states[0].decode("utf-8", "replace")
                self._bar = number, text[: len(text) - len(origin.split(text)[1])].encode()
                states[0] = states[0][len(self._bar[1]) :]
            prefix = self._bar[1] if number == self._bar[0] else b""
            lines += [prefix + state for state in states]
            numbers += [number] * len(states)
        return b"\n".join(lines), numbers

    def _learn(self, masked: set[bytes]) -> None:
        """Keep what may read lines whose digits are masked: most of them have none of the fragments."""
        if self._size > _MOST_KEPT:
            self._kinds, self._size = {}, 0
        new = masked - self._kinds.keys()
        self._kinds.update(dict.fromkeys(new))
        text = b"\n".join(new) + b"\n"
        self._size += len(text) + _OVERHEAD * len(new)
        readers: dict[bytes, set[int]] = {}
        for fragment, numbers in self._fragments.items():
            at = text.find(fragment)
            while at >= 0:
                end = text.find(b"\n", at)
                readers.setdefault(text[text.rfind(b"\n", 0, at) + 1 : end], set()).update(numbers)
                at = text.find(fragment, end)
        for line, found in readers.items():
            self._kinds[line] = self._kind(line, sorted(found))  # of two dialects the last one counts

    def _kind(self, line: bytes, readers: list[int]) -> _Kind | None:
        """Return what may read a line whose digits are masked."""
        if _MARK in line:
            return _EVENTS if mlperf.is_of_use(line) else None
        pairs = map(self._readers.__getitem__, readers)
        wanted = [reader for texts, reader in pairs if all(text in line for text in texts)]
        if not wanted:
            return None
        text = line.decode("utf-8", "replace")
        rest = origin.split(text)[1]
        kind = _Kind([], [])
        matches = []
        for reader in wanted:
            if isinstance(reader, Metric):
                kind.metrics.append(reader)
            elif self._plain or reader.dialect.name != PLAIN:
                found = [(reader, match) for match in reader.matches(rest)] if reader.takes_any_digits else []
                matches += found
                if found or not reader.takes_any_digits:
                    kind.patterns.append(reader)
        if len(matches) != 1 or kind.metrics or not line.isascii():
            return kind if kind.patterns or kind.metrics else None
        ((pattern, match),) = matches
        begin = len(text) - len(rest)
        places = {
            name: slice(*(begin + end for end in match.span(name)))
            for name, value in match.groupdict().items()
            if value
        }
        place = places.get("done") or places.get("step") or slice(0)
        if not pattern.is_replaced or pattern.read(match, 0)[1] or b"," in line[place]:
            return kind
        same = [slice(begin), *(places[name] for name in _SAME if name in places)]
        return kind._replace(replaced=pattern, same=same, place=place)

    def _take(self, line: bytes, kind: _Kind, number: int, above: bytes, count: int, *, is_torn: bool) -> None:
        """Add what each dialect reads in a line; what `plain` reads counts where no other dialect reads it."""
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
                self._add(record)  # two lines in one
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
