"""Which lines of a block may say something: found by fixed texts over whole blocks, long before any expression runs.

Every pattern has a text that stands in each of its matches. A few short fragments cover the texts of all patterns, so
that a block is searched once for each fragment, and most lines of a log are never looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runner.records.foreign.lines import LONGEST, text_of
from runner.records.foreign.pattern import LINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.records.foreign.dialect import Pattern
    from runner.records.foreign.lines import Block

_COMMON = ("loss", "poch", "ccura", "WORLD_SIZE", "raining ", "init_process_group")
"""Fragments that many texts have."""
_MLPERF = ("run_st", "eval_acc", "epoch_st", "submission_benchmark", "number_of_", "tracked_stats")
_LONGEST_FRAGMENT = 12


class Candidate(NamedTuple):
    """A line that holds the fixed text of these patterns."""

    line: int
    text: str
    before: str
    """The line before it."""
    patterns: list[Pattern]
    mlperf: bool
    cut: bool


class Scanner:
    """Finds candidates in blocks."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._fragments: dict[bytes, list[tuple[bytes, Pattern]]] = {}
        self._last = b""
        for fragment in _MLPERF:
            self._fragments[fragment.encode()] = []
        self._mlperf = set(self._fragments)
        for pattern in sorted(patterns, key=lambda one: len(one.literal)):
            literal = pattern.literal.encode()
            known = (one for one in (*(c.encode() for c in _COMMON), *self._fragments) if one in literal)
            fragment = next(known, literal[:_LONGEST_FRAGMENT])
            self._fragments.setdefault(fragment, []).append((literal, pattern))

    @property
    def fragments(self) -> list[bytes]:
        """Return the texts that a block is searched for."""
        return list(self._fragments)

    def candidates(self, block: Block) -> Iterator[Candidate]:
        """Yield the lines of a block that some pattern may match, in their order."""
        data = block.data
        returns = b"\r" in data
        hits: dict[int, list[bytes]] = {}
        ends: dict[int, int] = {}
        for fragment in self._fragments:
            at = data.find(fragment)
            while at >= 0:
                start = data.rfind(b"\n", 0, at) + 1
                end = data.find(b"\n", at)
                end = len(data) if end < 0 else end
                if returns:
                    start = max(start, data.rfind(b"\r", start, at) + 1)
                    stop = data.find(b"\r", at, end)
                    end = end if stop < 0 else stop
                hits.setdefault(start, []).append(fragment)
                ends[start] = end
                at = data.find(fragment, end)
        line, counted = block.line, 0
        for start in sorted(hits):
            line += data.count(b"\n", counted, start)
            counted = start
            found = self._candidate(data, start, ends[start], hits[start], line)
            if found:
                yield found
        self._last = data[-LINE:]

    def _candidate(self, data: bytes, start: int, end: int, fragments: list[bytes], line: int) -> Candidate | None:
        raw = data[start : min(end, start + LONGEST)]
        patterns = [one for part in fragments for literal, one in self._fragments[part] if literal in raw]
        mlperf = b":::ML" in raw and not self._mlperf.isdisjoint(fragments)
        if not patterns and not mlperf:
            return None
        before = b""
        if any(one.after for one in patterns):
            before = (self._last + b"\n" if start == 0 else b"") + data[max(0, start - LINE) : max(0, start - 1)]
            before = before.rstrip(b"\n").rpartition(b"\n")[2]
        return Candidate(line, text_of(raw), text_of(before), patterns, mlperf, end - start > LONGEST)
