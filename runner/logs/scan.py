"""Which lines of a log may say something: found by fixed texts over whole blocks, long before any expression runs.

Every pattern has texts that stand in each of its matches. A few short fragments cover the texts of all patterns, so
that a block is searched once for each fragment, and most lines of a log are never looked at.

What a run says about its training and its evaluations is looked for everywhere. What launchers and programs say when
they begin and end is looked for in the first and the last `ENDS` blocks, which of most logs is all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from runner.logs import general
from runner.logs.dialect import Pattern
from runner.logs.digits import MASK
from runner.logs.kinds import LONGEST as LONGEST_SHAPE
from runner.logs.kinds import Kind, general_kind, kind_of, to_read
from runner.logs.lines import LONGEST, Block, text_of
from runner.logs.pattern import LINE

ENDS = 4
"""Blocks at the beginning and at the end of a log in which every fragment is looked for: 1 MiB each."""
_COMMON = (b"poch", b"loss", b"ccura", b"acc", b"run_st", b"Loss")
_COMMON_AT_ENDS = (b"raining", b"train_", b"istributed", b"exit", b"rror: ", b"fail", b"Saved ", b"--n")
"""Fragments that many texts have."""
_KEY = b'"key": "'
_KEYS = {b"run_start", b"run_stop", b"eval_accuracy", b"epoch_start", b"submission_benchmark", b"number_of_ranks"}
_KEYS |= {b"number_of_nodes", b"train_epoch", b"block_start", b"block_stop"}
_LONGEST_FRAGMENT = 40
_SAMPLE = 8_192
"""Bytes at the beginning of a block that show how many of its lines hold a fragment."""
_DENSE = 20
"""Lines with a fragment in the sample, from which on it takes less time to look at the shape of every line."""
_MOST_SHAPES = 20_000
_MOST_NEW = 500
"""Shapes of one block that are looked into: where each line has a shape of its own it takes less time to read them."""
_ABOVE = 800
"""Bytes above a line in which the word for its data may stand."""
Fragments = dict[bytes, "list[tuple[bytes, Pattern]]"]


class Candidate(NamedTuple):
    """A line that holds the fixed texts of these patterns."""

    line: int
    text: str
    before: str
    """The line before it."""
    patterns: list[Pattern]
    """None in a line with an MLPerf event."""
    cut: bool
    lines: int
    """How many lines it stands for."""
    above: str = ""
    """The lines above it, for one that no pattern may match."""
    block: Block | None = None
    end: int = 0
    """Where it ends in its block."""


class Scanner:
    """Finds candidates in blocks, which are given in their order."""

    def __init__(
        self,
        patterns: Iterable[Pattern],
        begin: Callable[[Block], object] = lambda _: None,
        *,
        is_general: bool = False,
        reads_all: bool = False,
    ) -> None:
        """Take patterns, and what is called with each block before its candidates are found.

        Say whether other lines that may say something are candidates too, and whether no candidate is left out.
        """
        self._begin = begin
        self._is_general = is_general
        self._reads_all = reads_all
        self._everywhere: Fragments = {fragment: [] for fragment in _COMMON}
        self._ends: Fragments = {one: [] for one in (b"submission_benchmark", b"number_of_", *_COMMON_AT_ENDS)}
        ordered = sorted(patterns, key=lambda one: (not one.everywhere, len(one.literals[0])))
        for pattern in ordered:
            texts = [text.encode() for text in pattern.literals]
            known = (one for one in self._everywhere | self._ends for text in texts if one in text)
            fragment = next(
                known, texts[0][:_LONGEST_FRAGMENT].strip() or texts[0]
            )  # a search for a space takes longer
            of = self._everywhere if pattern.everywhere or fragment in self._everywhere else self._ends
            of.setdefault(fragment, []).append((texts[0], pattern))
        self._all = self._everywhere | self._ends
        self._more: Fragments = {one: [] for one in general.FRAGMENTS if is_general and one not in self._everywhere}
        self._waiting: deque[Block] = deque()
        self._seen = 0
        self._last = b""
        self._known: dict[bool, dict[bytes, Kind | None]] = {False: {}, True: {}}
        """What lines of a shape are, for both sets of fragments."""

    def leave_general(self) -> None:
        """Look only for lines that patterns match from now on."""
        if self._is_general:
            self._is_general, self._more = False, {}
            self._known = {False: {}, True: {}}

    @property
    def fragments(self) -> tuple[list[bytes], list[bytes]]:
        """Return the texts that are looked for everywhere, and those at both ends of a log."""
        return list(self._everywhere), list(self._ends)

    def candidates(self, block: Block) -> Iterator[Candidate]:
        """Yield the lines that some pattern may match, in their order, of blocks that are surely not among the last."""
        self._seen += 1
        if self._seen <= ENDS:
            yield from self._search(block, self._all)
            return
        self._waiting.append(block)
        if len(self._waiting) > ENDS:
            yield from self._search(self._waiting.popleft(), self._everywhere)

    def rest(self) -> Iterator[Candidate]:
        """Yield those of the last blocks."""
        while self._waiting:
            yield from self._search(self._waiting.popleft(), self._all)

    def _search(self, block: Block, fragments: Fragments) -> Iterator[Candidate]:
        self._begin(block)
        data = block.data
        # A carriage return ends a line here, of the same length; lines are counted in what was read.
        text = data.replace(b"\r\n", b" \n").replace(b"\r", b"\n") if b"\r" in data else data
        number, counted = block.line, 0
        for start, line, patterns, lines in self.lines(text, fragments):
            number += data.count(b"\n", counted, start)
            counted = start
            before = self._before(data, start) if any(one.after for one in patterns) else ""
            is_cut, end = len(line) > LONGEST, start + len(line)
            above = self._above(text, start) if self._is_general else ""
            yield Candidate(number, text_of(line[:LONGEST]), before, patterns, is_cut, lines, above, block, end)
        self._last = data[-LINE:]

    def lines(self, text: bytes, fragments: Fragments) -> Iterator[tuple[int, bytes, list[Pattern], int]]:
        """Yield the lines that have to be read: where each begins, what may match it, how many it stands for."""
        known = self._known[fragments is self._all]
        fragments = fragments | self._more
        lines, shapes, starts = _split(text, fragments)
        if fresh := set(shapes).difference(known):
            known |= dict.fromkeys(fresh)
            known |= _kinds(fresh, fragments, is_general=self._is_general)
        kinds = list(map(known.get, shapes))
        if any(kind and kind.unless for kind in set(kinds)):
            kinds = [kind.of(line) if kind and kind.unless else kind for kind, line in zip(kinds, lines, strict=True)]
        found = {index: 1 for index, kind in enumerate(kinds) if kind} if self._reads_all else to_read(kinds, lines)
        for index, count in sorted(found.items()):
            kind = known[shapes[index]]
            patterns = [pattern for literal, pattern in kind.patterns if literal in lines[index]] if kind else []
            if patterns or (kind and (kind.mlperf or self._is_general)):
                yield starts(index), lines[index], patterns, count
        for shape in fresh:
            if len(shape) > LONGEST_SHAPE or ((kind := known[shape]) and kind.for_itself):
                del known[shape]
        if len(known) > _MOST_SHAPES:
            known.clear()

    def _above(self, text: bytes, start: int) -> str:
        above = text[max(0, start - _ABOVE) : start]
        return text_of((above if start >= _ABOVE else self._last[-_ABOVE:] + above).rpartition(b"\n")[0])

    def _before(self, data: bytes, start: int) -> str:
        before = data[max(0, start - LINE) : start] or self._last
        return text_of(before.rstrip(b"\r\n").rpartition(b"\n")[2])


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


def _kinds(shapes: Iterable[bytes], fragments: Fragments, *, is_general: bool) -> Iterator[tuple[bytes, Kind | None]]:
    """Yield the shapes that hold a fragment, with what lines of that shape are."""
    text = b"\n".join(shapes)
    new = 0
    for start, end in _hits(text, [one.translate(MASK) for one in fragments]).items():
        shape = text[start:end]
        if b":::ML" in shape:
            yield shape, Kind(mlperf=True) if is_event_of_use(shape) else None
            continue
        found = (pair for fragment, pairs in fragments.items() if fragment.translate(MASK) in shape for pair in pairs)
        patterns = tuple(pair for pair in found if pair[0].translate(MASK) in shape)
        is_odd = len(shape) > LONGEST_SHAPE or new > _MOST_NEW
        kind = None
        if patterns:
            new += 1
            kind = Kind(patterns) if is_odd else kind_of(shape, patterns)
            if is_general and kind and not (kind.every or kind.trains):
                kind = Kind(patterns)  # it may say more than its patterns read
        if is_general and kind is None:
            new += 1
            kind = Kind(general=True) if is_odd else general_kind(shape)
        if is_general and kind and kind.unless and kind.other is None:
            kind = replace(kind, other=general_kind(shape))
        yield shape, kind


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
    """Whether an MLPerf line is worth to be decoded: most are not."""
    if line.count(_KEY) == 1:
        at = line.find(_KEY) + len(_KEY)
        return line[at : line.find(b'"', at)] in _KEYS
    return any(key in line for key in _KEYS)
