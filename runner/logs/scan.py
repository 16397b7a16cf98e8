"""Which lines of a log may say something: found by fixed texts over whole blocks, long before any expression runs.

Every pattern has texts that stand in each of its matches. A few short fragments cover the texts of all patterns, so
that a block is searched once for each fragment, and most lines of a log are never looked at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from runner.logs import origin
from runner.logs.dialect import Pattern
from runner.logs.lines import LONGEST, Block, text_of
from runner.logs.metrics import Metric
from runner.logs.pattern import LINE

MASK = bytes.maketrans(b"123456789", b"0" * 9)
"""Makes one line of all that differ in their digits alone."""
_COMMON = (b"poch", b"loss", b"ccura", b"acc", b"Loss", b"raining", b"rror: ")
"""Fragments that many texts have."""
_EVENT = b":::ML"
_KEY = b'"key": "'
_KEYS = {b"run_start", b"run_stop", b"eval_accuracy", b"epoch_start", b"submission_benchmark", b"number_of_ranks"}
_KEYS |= {b"number_of_nodes", b"train_epoch"}
_LONGEST_FRAGMENT = 40
_MOST_KNOWN = 20_000
_LONGEST_KNOWN = 1_000
_REPLACED = {"train_loss", "step", "steps", "done", "total", "throughput"}
"""Fields of which the last value of a writer counts."""
Reader = Pattern | Metric


class Candidate(NamedTuple):
    """A line that may hold the fixed texts of these patterns."""

    line: int
    text: str
    above: str
    """Some lines above it, if a pattern looks at them."""
    patterns: tuple[Reader, ...]
    is_event: bool
    cut: bool
    lines: int
    """How many lines it stands for."""


class _Kind(NamedTuple):
    """What lines are that differ in their digits alone."""

    patterns: tuple[Reader, ...] = ()
    fixed: tuple[slice, ...] = ()
    """Where lines have to be the same that can only replace each other's values: their prefix and epoch."""
    step: slice | None = None
    unless: tuple[Pattern, ...] = ()
    """Patterns whose match in a line keeps it from being left out."""
    place: str = ""
    """The file and line of the pattern whose values are replaced."""
    is_event: bool = False


@dataclass
class _Run:
    """Lines of which each replaces what the one before said: the last two, and how many were left out."""

    step: int
    held: list[tuple[int, _Kind]] = field(default_factory=list)
    skipped: int = 0


class Scanner:
    """Finds candidates in blocks, which are given in their order."""

    def __init__(self, patterns: Iterable[Reader], *, reads_all: bool = False) -> None:
        """Take patterns, and whether no line is left out."""
        self._reads_all = reads_all
        self._fragments: dict[bytes, list[tuple[bytes, Reader]]] = {fragment: [] for fragment in (*_COMMON, _EVENT)}
        for pattern in sorted(patterns, key=lambda pattern: len(pattern.literals[0])):
            texts = [text.encode() for text in pattern.literals]
            known = (fragment for fragment in self._fragments for text in texts if fragment in text)
            fragment = next(known, texts[0][:_LONGEST_FRAGMENT].strip() or texts[0])  # blanks take longer to search for
            self._fragments.setdefault(fragment, []).append((texts[0].translate(MASK), pattern))
        self._last = b""
        self._known: dict[bytes, _Kind] = {}
        """What may match lines that differ in their digits alone."""

    def candidates(self, block: Block) -> Iterator[Candidate]:
        """Yield the lines of a block that some pattern may match, in their order."""
        data = block.data
        # A carriage return ends a line here, of the same length; lines are counted in what was read.
        text = data.replace(b"\r\n", b" \n").replace(b"\r", b"\n") if b"\r" in data else data
        number, counted = block.line, 0
        hits = _hits(text, self._fragments)
        for start, kind, lines in self._thinned(text, hits):
            line = text[start : hits[start]]
            number += data.count(b"\n", counted, start)
            counted = start
            above = b""
            if any(isinstance(pattern, Pattern) and pattern.after for pattern in kind.patterns):
                above = (self._last + text[max(0, start - LINE) : start])[-LINE:]
            words, is_cut = text_of(line[:LONGEST]), len(line) > LONGEST
            yield Candidate(number, words, text_of(above), kind.patterns, kind.is_event, is_cut, lines)
        self._last = text[-LINE:]

    def _thinned(self, text: bytes, hits: dict[int, int]) -> Iterator[tuple[int, _Kind, int]]:
        """Yield where lines begin; of many that can only replace each other's values the first and the last two."""
        runs: dict[object, _Run] = {}
        for start in sorted(hits):
            line = text[start : hits[start]]
            kind = self._kind(line)
            if not (kind.patterns or kind.is_event):
                continue
            key = (kind.place, *[line[place] for place in kind.fixed]) if kind.fixed else None
            if any(pattern.matches(text_of(line[kind.fixed[0].stop :])) for pattern in kind.unless):
                key = None
            step = int(line[kind.step]) if kind.step else 0
            run = None if self._reads_all else runs.get(key)
            if run and step >= run.step:
                run.step, run.skipped = step, run.skipped + len(run.held[:-1])
                run.held = [*run.held[-1:], (start, kind)]
                continue
            yield from _flushed(runs)
            yield start, kind, 1
            if key is None or len(runs) > _MOST_KNOWN:
                runs.clear()
            else:
                runs[key] = _Run(step)
        yield from _flushed(runs)

    def _kind(self, line: bytes) -> _Kind:
        if _EVENT in line:
            return _Kind(is_event=is_event_of_use(line))
        masked = line.translate(MASK)
        if (known := self._known.get(masked)) is not None:
            return known
        text = origin.split(text_of(line[:LONGEST]))[1]
        found = tuple(
            pattern
            for fragment, pairs in self._fragments.items()
            if pairs and fragment.translate(MASK) in masked
            for literal, pattern in pairs
            if literal in masked
            and (isinstance(pattern, Metric) or not pattern.takes_any_digits or pattern.matches(text))
        )
        kind = _kind_of(line, text, found)
        if len(line) <= _LONGEST_KNOWN:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            self._known[masked] = kind
        return kind


def _kind_of(line: bytes, text: str, patterns: tuple[Reader, ...]) -> _Kind:
    """Return what has to be the same in lines whose values only replace each other, and their step; else nothing."""
    kind = _Kind(patterns)
    unless = tuple(one for one in patterns if isinstance(one, Pattern) and not one.takes_any_digits)
    rest = [one for one in patterns if one not in unless]
    pattern = rest[0] if len(rest) == 1 else None
    if not isinstance(pattern, Pattern) or not line.isascii():
        return kind
    names = pattern.regex.groupindex.keys()
    if names - (_REPLACED | {"epoch", "epochs"}) or pattern.says or pattern.after:
        return kind
    begin = len(line) - len(text)
    (found, *others) = pattern.matches(text)
    spans = {name: found.span(name) for name in names if found[name]}
    places = {name: slice(begin + start, begin + end) for name, (start, end) in spans.items()}
    if others or ("step" in places and not line[places["step"]].isdigit()):
        return kind
    fixed = (slice(begin), *(places[name] for name in ("epoch", "epochs") if name in places))
    return _Kind(patterns, fixed, None if "epoch" in places else places.get("step"), unless, pattern.place)


def _flushed(runs: dict[object, _Run]) -> Iterator[tuple[int, _Kind, int]]:
    """Yield the lines that are held, the last one of each run for those that were left out too."""
    found = []
    for run in runs.values():
        found += [
            (start, kind, 1 + run.skipped * (at == len(run.held) - 1)) for at, (start, kind) in enumerate(run.held)
        ]
        run.held, run.skipped = [], 0
    yield from sorted(found, key=itemgetter(0))


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
