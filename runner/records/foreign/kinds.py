"""Lines that differ in their digits alone are of one shape. Of the many lines of a shape, few can change a result.

A log in which every line says something is mostly the same line again with other numbers. What patterns find in such
lines, and where, depends on their shape alone, if the patterns treat all digits alike: so it is found once for each
shape. Then of lines that have the same fields of the same writer and epoch, only these are read in full:

- the first one, which has whatever is kept where it was said first: the epoch, a fact of the run, its line;
- the last one, which has whatever counts as it was said last: a loss, a place in the epoch, a clock, a word of the end;
- those on both sides of a change of the epoch, and the last two with a step forward, which show how far an epoch goes.

Lines with an evaluation, of which each counts, are all read, and so is whatever is not sure to be of such a shape.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from runner.records.foreign import origin
from runner.records.foreign.digits import for_any_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.records.foreign.dialect import Pattern

LONGEST = 1_000
"""Bytes of a line that may have a shape; longer ones are all read."""
_LAST_COUNTS = {"train_loss", "run_loss", "step", "steps", "done", "total", "wall", "throughput"}
"""Fields of which the last value of a writer counts."""
_FIRST_COUNTS = {"epoch", "epochs", "rank", "backend", "speedup", "nnodes"}
"""Fields of which each different value counts, and where it was said first."""
_HUGE = re.compile(r"[eE][-+]?0{3}")
"""An exponent that may make a number infinite, which is no value of most fields."""
_Signature = tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class Kind:
    """What all lines of a shape are."""

    fragments: tuple[bytes, ...]
    """The texts by which such a line was found."""
    family: str = ""
    """Equal for shapes with the same fields, whatever the lengths of their numbers."""
    fixed: Callable[[bytes], Any] = lambda _: object()
    """Returns the bytes of a line that have to be the same in lines of which some are left out; by default none are."""
    epoch: slice | None = None
    done: slice | None = None
    trains: bool = False
    stamped: bool = False
    every: bool = True
    """Whether each line is read."""


def kind_of(shape: bytes, fragments: tuple[bytes, ...], patterns: Sequence[Pattern]) -> Kind | None:
    """Say what lines of a shape are that patterns may match; None if none does, whatever the digits are."""
    every = Kind(fragments)
    try:
        line = shape.decode()
    except UnicodeDecodeError:
        return every
    who, text = origin.split(line)
    found: list[tuple[Pattern, re.Match[str]]] = []
    for pattern in patterns:
        wide = for_any_digits(pattern.regex)
        if wide is pattern.regex and not pattern.after:
            found += [(pattern, one) for one in pattern.matches(text)]
        elif wide is None or wide.search(text):
            return every
    if not found:
        return None
    spans: dict[str, tuple[int, int]] = {}
    for pattern, one in found:
        for name, (start, end) in ((name, one.span(name)) for name in one.groupdict() if one[name] is not None):
            if name in spans or _HUGE.search(one[name]):
                return every
            spans[name] = (start + len(line) - len(text), end + len(line) - len(text))
    names = spans.keys()
    dialects = {pattern.dialect.name for pattern, _ in found}
    if len(dialects) > 1 or names - _LAST_COUNTS - _FIRST_COUNTS or any(one.sets for one, _ in found):
        return every
    places = {name: slice(*(len(line[:at].encode()) for at in span)) for name, span in spans.items()}
    fixed = [places[name] for name in sorted(names & _FIRST_COUNTS)]
    fixed += [slice(*(len(line[:at].encode()) for at in span)) for span in origin.writer_spans(line)]
    return Kind(
        fragments,
        sys.intern(repr(([id(pattern) for pattern, _ in found], who.kinds, sorted(names)))),
        itemgetter(*fixed) if fixed else lambda _: None,
        places.get("epoch"),
        places.get("done"),
        trains=not names.isdisjoint(("train_loss", "steps")),
        stamped="time" in who.kinds,
        every=False,
    )


@dataclass
class _Run:
    """Lines of one signature with no other candidate between them."""

    signature: _Signature
    first: int
    last: int
    lines: int = 1


def to_read(kinds: Sequence[Kind | None], lines: Sequence[bytes]) -> dict[int, int]:
    """Return, by their index, the lines that have to be read, and how many lines each stands for."""
    runs = _runs(kinds, lines)
    chosen: dict[_Signature, set[int]] = {}
    count: dict[_Signature, int] = {}
    for run in runs:
        chosen.setdefault(run.signature, {run.first})
        count[run.signature] = count.get(run.signature, 0) + run.lines
    last = {run.signature: run.last for run in runs}
    for signature, index in last.items():
        chosen[signature].add(index)
    for signature, index in (*_changes(runs, kinds, lines), *_last_step(runs, kinds, lines)):
        chosen[signature].add(index)
    for signature in [one for one, index in last.items() if _has_no_time(chosen[one], kinds[index], lines)]:
        chosen[signature].update(_all_of(signature, runs, kinds))
    found = {}
    for signature, indexes in chosen.items():
        found |= dict.fromkeys(indexes, 1)
        found[min(indexes)] += count[signature] - len(indexes)
    return found


def _runs(kinds: Sequence[Kind | None], lines: Sequence[bytes]) -> list[_Run]:
    """This loop sees every line."""
    runs: list[_Run] = []
    signature: Any = None
    for index, kind in enumerate(kinds):
        if kind is None:
            continue
        new = (kind.family, kind.fixed(lines[index]))
        if new != signature:
            runs.append(run := _Run(new, index, index))
            signature = new
        else:
            run.last = index
            run.lines += 1
    return runs


def _changes(runs: list[_Run], kinds: Sequence[Any], lines: Sequence[bytes]) -> list[tuple[_Signature, int]]:
    """Return where the epoch changes: the line itself, and the lines of the training on both sides."""
    found: list[tuple[_Signature, int]] = []
    epoch: object = None
    trained: tuple[_Run, object] | None = None
    for run in runs:
        kind: Kind = kinds[run.first]
        if kind.every:
            epoch = object()  # it may say one
        elif kind.epoch:
            before, epoch = epoch, lines[run.first][kind.epoch]
            if before != epoch:
                found.append((run.signature, run.first))
        if kind.trains or kind.every:
            place: object = object() if kind.every else (epoch, kind.done is None)
            if trained and trained[1] != place:
                found += [(trained[0].signature, trained[0].last), (run.signature, run.first)]
            trained = (run, place)
    return found


def _last_step(runs: list[_Run], kinds: Sequence[Any], lines: Sequence[bytes]) -> list[tuple[_Signature, int]]:
    """Return the last two lines one after the other of which the second one is farther in the epoch."""
    later: tuple[_Signature, int, int] | None = None
    for run in reversed(runs):
        if not (kinds[run.first].trains or kinds[run.first].every):
            continue
        for index in range(run.last, run.first - 1, -1):
            kind: Kind | None = kinds[index]
            if kind is None:
                continue
            if kind.done is None:
                later = None
                continue
            done = int(lines[index][kind.done].replace(b",", b""))
            if later and later[2] > done:
                return [(run.signature, index), later[:2]]
            later = (run.signature, index, done)
    return []


def _has_no_time(indexes: set[int], kind: Kind | None, lines: Sequence[bytes]) -> bool:
    """Whether a first or a last line has a time stamp that is none, as 25:00:00."""
    if not (kind and kind.stamped):
        return False
    ends = (min(indexes), max(indexes))
    return any(origin.split(lines[index].decode())[0].time is None for index in ends)


def _all_of(signature: _Signature, runs: list[_Run], kinds: Sequence[Kind | None]) -> list[int]:
    found: list[int] = []
    for run in runs:
        if run.signature == signature:
            found += [index for index in range(run.first, run.last + 1) if kinds[index]]
    return found
