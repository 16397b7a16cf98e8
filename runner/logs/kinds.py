"""Lines that differ in their digits alone are of one shape. Of the many lines of a shape, few can change a result.

A log in which every line says something is mostly the same line again with other numbers. What patterns find in such
lines, and where, depends on their shape alone, if the patterns treat all digits alike: so it is found once for each
shape. Then of lines that have the same fields of the same writer and epoch, only these are read in full:

- the first one, which has whatever is kept where it was said first: the epoch, a fact of the run, its line;
- the last one, which has whatever counts as it was said last: a loss, a place in the epoch, a clock;
- those on both sides of a change of the epoch, and the last two with a step forward, which show how far an epoch goes.

Lines with an evaluation or a word of the end, of which each counts, are all read, and so is whatever is not sure to be
of such a shape.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from runner.logs import general, origin
from runner.logs.dialect import Pattern
from runner.logs.digits import for_any_digits

LONGEST = 1_000
"""Bytes of a line that may have a shape; longer ones are all read."""
_LAST_COUNTS = {"train_loss", "run_loss", "step", "steps", "done", "total", "wall", "throughput"}
"""Fields of which the last value of a writer counts."""
_FIRST_COUNTS = {"epoch", "epochs", "rank", "backend", "speedup", "nnodes"}
"""Fields of which each different value counts, and where it was said first."""
_HUGE = re.compile(r"[eE][-+]?\d{3}")
"""An exponent that can make a number infinite, which is no value of most fields."""
_Signature = tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class Kind:
    """What all lines of a shape are."""

    patterns: tuple[tuple[bytes, Pattern], ...] = ()
    """What may match them, each with a text that the line has to hold."""
    mlperf: bool = False
    """Whether they are MLPerf events."""
    general: bool = False
    """Whether they are looked at though no pattern may match them."""
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
    unless: tuple[Pattern, ...] = ()
    """Patterns that look at the digits themselves: lines that none of them matches are of the other kind."""
    other: Kind | None = None
    begins: int = 0
    """Where lines begin after the prefixes of launchers."""

    @property
    def for_itself(self) -> bool:
        """Whether each line is read, and nothing is known by which others of the shape would be left out."""
        return self.every and not (self.mlperf or self.unless or self.general)

    def of(self, line: bytes) -> Kind | None:
        """Return the kind of a line of this shape."""
        text = line[self.begins :].decode()
        return self if any(pattern.search(text) for pattern in self.unless) else self.other


def kind_of(shape: bytes, patterns: tuple[tuple[bytes, Pattern], ...]) -> Kind | None:
    """Say what lines of a shape are that some patterns may match; None if none does, whatever the digits are."""
    every = Kind(patterns)
    try:
        line = shape.decode()
    except UnicodeDecodeError:
        return every
    text = origin.split(line)[1]
    found: list[tuple[Pattern, re.Match[str]]] = []
    unless: list[Pattern] = []
    for _, pattern in patterns:
        wide = for_any_digits(pattern.regex)
        if pattern.after and (wide is None or pattern.search(text, wide)):
            return every
        if wide is pattern.regex:
            found += [(pattern, one) for one in pattern.matches(text)]
        elif wide is None or pattern.search(text, wide):
            unless.append(pattern)
    kind = _kind(every, line, found) if found else None
    if unless and kind is not every:
        return Kind(patterns, unless=tuple(unless), other=kind, begins=len(line[: len(line) - len(text)].encode()))
    return kind


def _kind(every: Kind, line: str, found: list[tuple[Pattern, re.Match[str]]]) -> Kind:
    """Say what lines are that match as this one does."""
    who, text = origin.split(line)
    spans: dict[str, tuple[int, int]] = {}
    begins = len(line) - len(text)
    for pattern, one in found:
        values = pattern.fields(one)
        for name, word in one.groupdict().items():
            if word is None:
                continue
            if name in spans or name not in values or _HUGE.search(word):
                return every  # read twice in one line, or perhaps no value
            spans[name] = (one.start(name) + begins, one.end(name) + begins)
    names = spans.keys()
    dialects = {pattern.dialect.name for pattern, _ in found}
    if len(dialects) > 1 or names - _LAST_COUNTS - _FIRST_COUNTS or any(one.sets or one.says for one, _ in found):
        return every
    places = {name: slice(*(len(line[:at].encode()) for at in span)) for name, span in spans.items()}
    fixed = [places[name] for name in sorted(names & _FIRST_COUNTS)]
    fixed += [slice(*(len(line[:at].encode()) for at in span)) for span in origin.writer_spans(line)]
    return Kind(
        every.patterns,
        False,
        False,
        sys.intern(repr(([id(pattern) for pattern, _ in found], who.kinds, sorted(names)))),
        itemgetter(*fixed) if fixed else lambda _: None,
        places.get("epoch"),
        places.get("done"),
        trains=not names.isdisjoint(("train_loss", "steps")),
        stamped=not origin.STAMPED.isdisjoint(who.kinds),
        every=False,
    )


def general_kind(shape: bytes) -> Kind | None:
    """Say what lines of a shape are that no pattern matches; None if none of them says anything."""
    # The digit is one with which top1 and f1 are known, so that no line is missed.
    text = origin.split(shape.replace(b"0", b"1").decode("utf-8", "replace"))[1]
    return Kind(general=True) if general.may_say_something(text) else None


class _Place(NamedTuple):
    """What the order of lines of different groups can matter for."""

    epoch: bytes | None
    trains: bool
    steps: bool
    """Whether they say how far the epoch is."""


@dataclass(slots=True, eq=False)
class _Group:
    """Lines with one signature."""

    kind: Kind
    place: _Place
    first: int
    last: int = 0
    lines: int = 0
    chosen: set[int] = field(default_factory=set)


class _Move(NamedTuple):
    """Where a line follows on one with another place."""

    before: _Group | None
    last: int
    group: _Group
    first: int


def to_read(kinds: Sequence[Kind | None], lines: Sequence[bytes]) -> dict[int, int]:
    """Return, by their index, the lines that have to be read, and how many lines each stands for."""
    groups, moves = _groups(kinds, lines)
    for group in groups.values():
        group.chosen |= {group.first, group.last}
    _choose_changes(moves)
    if any(group.place.steps for group in groups.values()):
        _choose_last_step(groups, kinds, lines)
    for signature, group in groups.items():
        if group.kind.stamped and _has_no_time(lines[group.first], lines[group.last]):
            group.chosen.update(_all_of(signature, kinds, lines))
    found: dict[int, int] = {}
    for group in groups.values():
        found |= dict.fromkeys(group.chosen, 1)
        found[group.first] += group.lines - len(group.chosen)
    return found


def _groups(kinds: Sequence[Kind | None], lines: Sequence[bytes]) -> tuple[dict[_Signature, _Group], list[_Move]]:
    """Group the lines; this loop sees all of them."""
    groups: dict[_Signature, _Group] = {}
    moves: list[_Move] = []
    places: dict[_Place, _Place] = {}
    signature: Any = None
    group: Any = None
    last = 0
    for index, kind in enumerate(kinds):
        if kind is None:
            continue
        new = (kind.family, kind.fixed(lines[index]))
        if new != signature:
            signature, before = new, group
            if before:
                before.last = last
            group = groups.get(new)
            if group is None:
                epoch = lines[index][kind.epoch] if kind.epoch else None
                place = _Place(epoch, kind.trains, kind.done is not None)
                group = groups[new] = _Group(kind, places.setdefault(place, place), index)
            if before is None or group.place is not before.place or kind.every:
                moves.append(_Move(before, last, group, index))
        group.lines += 1
        last = index
    if group:
        group.last = last
    return groups, moves


def _choose_changes(moves: list[_Move]) -> None:
    """Choose the lines where the epoch changes, and the lines of the training on both sides."""
    epoch: object = None
    trained: tuple[_Group, int] | None = None
    trained_at: object = None
    for before, last, group, index in moves:
        every = group.kind.every
        if before and (before.place.trains or before.kind.every):
            trained = (before, last)
        if every:
            epoch = object()  # it may say one
        elif group.place.epoch is not None:
            if epoch != group.place.epoch:
                group.chosen.add(index)
            epoch = group.place.epoch
        if group.place.trains or every:
            at: object = object() if every else (epoch, group.place.steps)
            if trained and at != trained_at:
                trained[0].chosen.add(trained[1])
                group.chosen.add(index)
            trained_at = at


def _choose_last_step(groups: dict[_Signature, _Group], kinds: Sequence[Kind | None], lines: Sequence[bytes]) -> None:
    """Choose the last two lines of the training, one after the other, of which the second is farther in the epoch."""
    later: tuple[_Group, int, int] | None = None
    for index in range(len(kinds) - 1, -1, -1):
        kind = kinds[index]
        if kind is None or not (kind.trains or kind.every):
            continue
        if kind.done is None:
            later = None
            continue
        group = groups[kind.family, kind.fixed(lines[index])]
        # Patterns take the digits of every script, of which int() reads text alone.
        done = int(lines[index][kind.done].decode().replace(",", ""))
        if later and later[2] > done:
            group.chosen.add(index)
            later[0].chosen.add(later[1])
            return
        later = (group, index, done)


def _has_no_time(*lines: bytes) -> bool:
    """Whether one of some lines has a time stamp that is none, as 25:00:00."""
    return any(origin.split(line.decode())[0].time is None for line in lines)


def _all_of(signature: _Signature, kinds: Sequence[Kind | None], lines: Sequence[bytes]) -> list[int]:
    return [index for index, kind in enumerate(kinds) if kind and (kind.family, kind.fixed(lines[index])) == signature]
