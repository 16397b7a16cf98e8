"""Which lines of a log may say something: found by fixed texts over whole blocks, long before any expression runs.

Every pattern has texts that stand in each of its matches. A few short fragments cover the texts of all patterns, so
that a block is searched once for each fragment, and most lines of a log are never looked at.

What a run says about its training and its evaluations is looked for everywhere. What launchers and programs say when
they begin and end is looked for in the first and the last `ENDS` blocks, which of most logs is all of it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.records.foreign.lines import LONGEST, text_of
from runner.records.foreign.pattern import LINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.records.foreign.dialect import Pattern
    from runner.records.foreign.lines import Block

ENDS = 4
"""Blocks at the beginning and at the end of a log in which every fragment is looked for: 1 MiB each."""
_COMMON = (b"poch", b"loss", b"ccura", b"acc", b"run_st", b"Loss")
"""Fragments that many texts have."""
_KEY = b'"key": "'
_KEYS = {b"run_start", b"run_stop", b"eval_accuracy", b"epoch_start", b"submission_benchmark", b"number_of_ranks"}
_KEYS |= {b"number_of_nodes", b"train_epoch", b"block_start", b"block_stop"}
_LONGEST_FRAGMENT = 12
_Fragments = dict[bytes, "list[tuple[bytes, Pattern]]"]


class Candidate(NamedTuple):
    """A line that holds the fixed texts of these patterns."""

    line: int
    text: str
    before: str
    """The line before it."""
    patterns: list[Pattern]
    mlperf: bool
    cut: bool


class Scanner:
    """Finds candidates in blocks, which are given in their order."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._everywhere: _Fragments = {fragment: [] for fragment in _COMMON}
        self._ends: _Fragments = {b"submission_benchmark": [], b"number_of_": []}
        ordered = sorted(patterns, key=lambda one: (not one.everywhere, len(one.literals[0])))
        for pattern in ordered:
            texts = [text.encode() for text in pattern.literals]
            known = (one for one in self._everywhere | self._ends for text in texts if one in text)
            fragment = next(known, texts[0][:_LONGEST_FRAGMENT])
            of = self._everywhere if pattern.everywhere or fragment in self._everywhere else self._ends
            of.setdefault(fragment, []).append((texts[0], pattern))
        self._all = self._everywhere | self._ends
        self._waiting: deque[Block] = deque()
        self._seen = 0
        self._last = b""

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

    def _search(self, block: Block, fragments: _Fragments) -> Iterator[Candidate]:
        data = block.data
        # A carriage return ends a line here, of the same length; lines are counted in what was read.
        text = data.replace(b"\r\n", b" \n").replace(b"\r", b"\n") if b"\r" in data else data
        hits = _hits(text, fragments)
        line, counted = block.line, 0
        for start in sorted(hits):
            end, *found = hits[start]
            raw = text[start:end]
            mlperf = b":::ML" in raw
            if mlperf:
                if not _is_event_of_use(raw):
                    continue
                patterns = []
            else:
                patterns = [one for part in found for literal, one in fragments[part] if literal in raw]
                if not patterns:
                    continue
            line += data.count(b"\n", counted, start)
            counted = start
            before = self._before(data, start) if any(one.after for one in patterns) else ""
            yield Candidate(line, text_of(raw[:LONGEST]), before, patterns, mlperf, end - start > LONGEST)
        self._last = data[-LINE:]

    def _before(self, data: bytes, start: int) -> str:
        before = data[max(0, start - LINE) : start] or self._last
        return text_of(before.rstrip(b"\r\n").rpartition(b"\n")[2])


def _hits(data: bytes, fragments: _Fragments) -> dict[int, list[Any]]:
    """Return, by where a line begins, where it ends and which fragments it holds."""
    find, rfind, size = data.find, data.rfind, len(data)
    hits: dict[int, list[Any]] = {}
    for fragment in fragments:
        end = 0
        at = find(fragment)
        while at >= 0:
            start = rfind(b"\n", end, at) + 1 or end
            known = hits.get(start)
            if known:
                known.append(fragment)
                end = known[0]
            else:
                end = find(b"\n", at)
                end = size if end < 0 else end
                hits[start] = [end, fragment]
            at = find(fragment, end)
    return hits


def _is_event_of_use(line: bytes) -> bool:
    """Whether an MLPerf line is worth to be decoded: most are not."""
    if line.count(_KEY) == 1:
        at = line.find(_KEY) + len(_KEY)
        return line[at : line.find(b'"', at)] in _KEYS
    return any(key in line for key in _KEYS)
