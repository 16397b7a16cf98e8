"""Which lines of a log matched which pattern, what was read from them, and what no pattern matched: for a person."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from runner.core.text import one_line
from runner.logs.lines import Block, text_of
from runner.logs.scan import MASK

MOST_SHOWN = 3
"""Lines of a pattern that are shown."""
MOST_UNREAD = 10
_TEXT = 100
_DIGIT = re.compile(rb"\d")


@dataclass
class Explanation:
    """What is found while a log is read, each of its lines by itself."""

    patterns: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Of each pattern the first lines that it matched."""
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    unread: dict[bytes, str] = field(default_factory=dict)
    """The first lines with digits that no pattern matched, each kind of line once."""
    _block: Block | None = None
    _read: set[int] = field(default_factory=set)

    def add(self, line: int, text: str, dialect: str, place: str, values: dict[str, Any]) -> None:
        """Take in what a pattern found in a line."""
        self._read.add(line)
        key = (dialect, PurePath(place).name)
        self.counts[key] += 1
        if self.counts[key] <= MOST_SHOWN:
            found = ", ".join(f"{name} {one_line(value, _TEXT)}" for name, value in values.items()) or "no figure"
            self.patterns.setdefault(key, []).append(f"line {line}: {found}: {one_line(text.strip(), _TEXT)}")

    def begin(self, block: Block | None) -> None:
        """Begin the next block: look through the one before for what no pattern matched."""
        if self._block and len(self.unread) < MOST_UNREAD:
            for number, line in enumerate(self._block.data.split(b"\n"), start=self._block.line):
                if number not in self._read and _DIGIT.search(line) and len(self.unread) < MOST_UNREAD:
                    shown = f"line {number}: {one_line(text_of(line[: 4 * _TEXT]).strip(), _TEXT)}"
                    self.unread.setdefault(re.sub(rb"0+", b"0", line.translate(MASK)), shown)
        self._block = block
        self._read = set()

    def lines(self, dialects: dict[str, int]) -> Iterator[str]:
        """Yield what was found, for a log of which these dialects count."""
        for (dialect, place), first in sorted(self.patterns.items()):
            why = "" if dialect in dialects else ", not used: nothing else bears them out, or another dialect is used"
            yield f"{dialect}{place and f' ({place})'}: {self.counts[dialect, place]:,} lines{why}"
            yield from (f"    {line}" for line in first)
        if self.unread:
            yield "no dialect reads, of the lines with digits, first:"
            yield from (f"    {line}" for line in self.unread.values())
