"""Which lines of a log may say something: found by fixed texts over whole blocks, long before any expression runs.

Every pattern has texts that stand in each of its matches. A few short fragments cover the texts of all patterns, so
that a block is searched once for each fragment, and most lines of a log are never looked at.

What a run says about its training and its evaluations is looked for everywhere. What launchers and programs say when
they begin and end is looked for in the first and the last `ENDS` blocks, which of most logs is all of it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from runner.logs import figures
from runner.logs.dialect import Pattern
from runner.logs.lines import LONGEST, Block, text_of
from runner.logs.pattern import LINE
from runner.logs.shapes import LONGEST as LONGEST_SHAPE
from runner.logs.shapes import MASK, Shape, shape_of, to_read

ENDS = 4
"""Blocks at the beginning and at the end of a log in which every fragment is looked for: 1 MiB each."""
_COMMON = (b"poch", b"loss", b"ccura", b"acc", b"run_st", b"Loss")
_COMMON_AT_ENDS = (b"raining", b"train_", b"istributed", b"exit", b"rror: ", b"fail", b"Saved ", b"--n")
"""Fragments that many texts have."""
_OF_EVENTS = (b"submission_benchmark", b"number_of_")
_KEY = b'"key": "'
_KEYS = {b"run_start", b"run_stop", b"eval_accuracy", b"epoch_start", b"submission_benchmark", b"number_of_ranks"}
_KEYS |= {b"number_of_nodes", b"train_epoch", b"block_start", b"block_stop"}
_LONGEST_FRAGMENT = 40
ABOVE = 800
"""Bytes above a line in which `general.py` looks for the word for its data."""
_SAMPLE = 8_192
"""Bytes at the beginning of a block that show how many of its lines hold a fragment."""
_DENSE = 20
"""Lines with a fragment in the sample, from which on it takes less time to look at the shape of every line."""
_MOST_SHAPES = 20_000
_MOST_NEW = 500
"""Shapes of one block that are looked into: where each line has a shape of its own it takes less time to read them."""
Fragments = dict[bytes, "list[tuple[bytes, Pattern]]"]


class Candidate(NamedTuple):
    """A line that holds the fixed texts of these patterns."""

    line: int
    text: str
    above: str
    """Some lines above it, if a pattern or `general.py` looks at them."""
    patterns: list[Pattern]
    """None in a line with an MLPerf event."""
    cut: bool
    lines: int
    """How many lines it stands for."""
    block: Block
    end: int
    """Where it ends in its block."""


def with_ends(blocks: Iterable[Block]) -> Iterator[tuple[Block, bool]]:
    """Yield blocks, each with whether it is among the first or the last ones."""
    waiting: deque[Block] = deque()
    for number, block in enumerate(blocks):
        if number < ENDS:
            yield block, True
            continue
        waiting.append(block)
        if len(waiting) > ENDS:
            yield waiting.popleft(), False
    yield from ((block, True) for block in waiting)


class Scanner:
    """Finds candidates in blocks, which are given in their order."""

    def __init__(self, patterns: Iterable[Pattern], *, is_general: bool = False, reads_all: bool = False) -> None:
        """Take patterns, whether other lines may be candidates too, and whether no candidate is left out."""
        self._is_general = is_general
        self._reads_all = reads_all
        self._everywhere: Fragments = {fragment: [] for fragment in _COMMON}
        at_ends: Fragments = {fragment: [] for fragment in (*_OF_EVENTS, *_COMMON_AT_ENDS)}
        for pattern in sorted(patterns, key=lambda pattern: (not pattern.everywhere, len(pattern.literals[0]))):
            texts = [text.encode() for text in pattern.literals]
            known = (fragment for fragment in self._everywhere | at_ends for text in texts if fragment in text)
            fragment = next(known, texts[0][:_LONGEST_FRAGMENT].strip() or texts[0])  # blanks take longer to search for
            of = self._everywhere if pattern.everywhere or fragment in self._everywhere else at_ends
            of.setdefault(fragment, []).append((texts[0], pattern))
        self._all = self._everywhere | at_ends
        self._more: Fragments = {part: [] for part in figures.FRAGMENTS if is_general and part not in self._everywhere}
        self._last = b""
        self._known: dict[bool, dict[bytes, Shape | None]] = {False: {}, True: {}}
        """What lines of a shape are, for both sets of fragments."""

    def leave_general(self) -> None:
        """Look only for lines that patterns match from now on."""
        if self._is_general:
            self._is_general, self._more = False, {}
            self._known = {False: {}, True: {}}

    def candidates(self, block: Block, *, at_end: bool) -> Iterator[Candidate]:
        """Yield the lines of a block that some pattern may match, in their order."""
        data = block.data
        # A carriage return ends a line here, of the same length; lines are counted in what was read.
        text = data.replace(b"\r\n", b" \n").replace(b"\r", b"\n") if b"\r" in data else data
        number, counted = block.line, 0
        for start, line, patterns, lines in self.lines(text, at_end=at_end):
            number += data.count(b"\n", counted, start)
            counted = start
            size = LINE if any(pattern.after for pattern in patterns) else ABOVE if self._is_general else 0
            above = text[max(0, start - size) : start]
            above = (self._last + above)[-size:] if start < size else above
            words, is_cut, end = text_of(line[:LONGEST]), len(line) > LONGEST, start + len(line)
            yield Candidate(number, words, text_of(above), patterns, is_cut, lines, block, end)
        self._last = text[-LINE:]

    def lines(self, text: bytes, *, at_end: bool) -> Iterator[tuple[int, bytes, list[Pattern], int]]:
        """Yield the lines that have to be read: where each begins, what may match it, how many it stands for."""
        known = self._known[at_end]
        fragments = self.fragments(at_end=at_end)
        lines, masked, starts = _split(text, fragments)
        if fresh := set(masked).difference(known):
            known |= dict.fromkeys(fresh)
            known |= _shapes(fresh, fragments, is_general=self._is_general)
        shapes = list(map(known.get, masked))
        if any(shape and shape.unless for shape in set(shapes)):
            shapes = [
                shape.of(line) if shape and shape.unless else shape for shape, line in zip(shapes, lines, strict=True)
            ]
        found = {index: 1 for index, shape in enumerate(shapes) if shape} if self._reads_all else to_read(shapes, lines)
        for index, count in sorted(found.items()):
            shape = known[masked[index]]
            patterns = [pattern for literal, pattern in shape.patterns if literal in lines[index]] if shape else []
            if patterns or (shape and (shape.mlperf or self._is_general)):
                yield starts(index), lines[index], patterns, count
        for line in fresh:
            if len(line) > LONGEST_SHAPE or ((shape := known[line]) and shape.is_plain):
                del known[line]
        if len(known) > _MOST_SHAPES:
            known.clear()

    def fragments(self, *, at_end: bool) -> Fragments:
        """Return the texts that are looked for, each with the patterns whose texts hold it."""
        return (self._all if at_end else self._everywhere) | self._more


def _split(text: bytes, fragments: Fragments) -> tuple[list[bytes], list[bytes], Callable[[int], int]]:
    """Return the lines that hold a fragment, or all if those are many; their shapes; and where each begins."""
    if len(_hits(text[:_SAMPLE], fragments)) < _DENSE:
        hits = _hits(text, fragments)
        starts = sorted(hits)
        lines = [text[start : hits[start]] for start in starts]
        return lines, [line.translate(MASK) for line in lines], starts.__getitem__
    lines = text.split(b"\n")
    begun = start = 0

    def starts_at(index: int) -> int:
        nonlocal begun, start
        start += sum(map(len, lines[begun:index])) + index - begun
        begun = index
        return start

    return lines, text.translate(MASK).split(b"\n"), starts_at


def _shapes(masked: Iterable[bytes], fragments: Fragments, *, is_general: bool) -> Iterator[tuple[bytes, Shape | None]]:
    """Yield those of some shapes that hold a fragment, with what lines of that shape are."""
    text = b"\n".join(masked)
    known = [(fragment.translate(MASK), pairs) for fragment, pairs in fragments.items()]
    new = 0
    for start, end in _hits(text, [fragment for fragment, _ in known]).items():
        line = text[start:end]
        if b":::ML" in line:
            yield line, Shape(mlperf=True) if is_event_of_use(line) else None
            continue
        found = (pair for fragment, pairs in known if fragment in line for pair in pairs)
        patterns = tuple(pair for pair in found if pair[0].translate(MASK) in line)
        new += bool(patterns or is_general)
        if len(line) > LONGEST_SHAPE or new > _MOST_NEW:
            yield line, Shape(patterns, general=not patterns) if patterns or is_general else None
        else:
            yield line, shape_of(line, patterns, is_general=is_general)


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


def is_event_of_use(line: bytes) -> bool:
    """Return whether an MLPerf line is worth to be decoded: most are not."""
    if line.count(_KEY) == 1:
        at = line.find(_KEY) + len(_KEY)
        return line[at : line.find(b'"', at)] in _KEYS
    return any(key in line for key in _KEYS)
