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

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, NamedTuple

from runner.logs import figures, origin
from runner.logs.dialect import Pattern
from runner.logs.pattern import for_any_digits

MASK = bytes.maketrans(b"123456789", b"0" * 9)
"""Makes one line of all that differ in their digits alone."""
LONGEST = 1_000
"""Bytes of a line that may have a shape; longer ones are all read."""
_LAST_COUNTS = {"train_loss", "run_loss", "step", "steps", "done", "total", "wall", "throughput"}
"""Fields of which the last value of a writer counts."""
_FIRST_COUNTS = {"epoch", "epochs", "rank", "backend", "speedup", "nnodes"}
"""Fields of which each different value counts, and where it was said first."""
_HUGE = re.compile(r"[eE][-+]?\d{3}")
"""An exponent that can make a number infinite, which is no value of most fields."""
Candidates = tuple[tuple[bytes, Pattern], ...]
"""Patterns that may match a line, each with a text that the line has to hold."""


@dataclass(frozen=True, eq=False)
class Shape:
    """What all lines of a shape are."""

    patterns: Candidates = ()
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
    """Whether they have a time stamp, of which some may be none, as 25:00:00."""
    every: bool = True
    """Whether each line is read."""
    unless: tuple[Pattern, ...] = ()
    """Patterns that look at the digits themselves: lines that none of them matches are of the other shape."""
    other: "Shape | None" = None
    begins: int = 0
    """Where lines begin after the prefixes of launchers."""

    @property
    def is_plain(self) -> bool:
        """Return whether each line is read, and nothing is known by which others of the shape would be left out."""
        return self.every and not (self.mlperf or self.unless or self.general)

    def of(self, line: bytes) -> "Shape | None":
        """Return what a line of this shape is."""
        text = line[self.begins :].decode()
        return self if any(pattern.matches(text) for pattern in self.unless) else self.other


def shape_of(masked: bytes, patterns: Candidates, *, is_general: bool) -> Shape | None:
    """Return what lines of a shape are; None if they say nothing, whatever the digits are."""
    shape = _by_patterns(masked, patterns) if patterns else None
    if not is_general:
        return shape
    if shape is None:
        return _general(masked)
    if not (shape.every or shape.trains):
        return Shape(patterns)  # they may say more than the patterns read
    return replace(shape, other=_general(masked)) if shape.unless and shape.other is None else shape


def _by_patterns(masked: bytes, patterns: Candidates) -> Shape | None:
    every = Shape(patterns)
    try:
        line = masked.decode()
    except UnicodeDecodeError:
        return every
    text = origin.split(line)[1]
    found: list[tuple[Pattern, re.Match[str]]] = []
    unless: list[Pattern] = []
    for _, pattern in patterns:
        wide = for_any_digits(pattern.regex)
        is_alike = wide is pattern.regex
        matches = pattern.matches(text) if is_alike else []
        # A wider pattern of a person's own dialect is not searched: nothing limits its time.
        may_match = bool(matches) if is_alike else bool(pattern.dialect.budget or wide.search(text))
        if pattern.after and may_match:
            return every
        found += [(pattern, match) for match in matches]
        unless += [pattern] if may_match and not is_alike else []
    shape = _by_matches(every, line, found) if found else None
    if unless and shape is not every:
        return Shape(patterns, unless=tuple(unless), other=shape, begins=len(line[: len(line) - len(text)].encode()))
    return shape


def _by_matches(every: Shape, line: str, found: list[tuple[Pattern, re.Match[str]]]) -> Shape:
    """Return what lines are that match as this one does."""
    who, text = origin.split(line)
    begins = len(line) - len(text)
    places: dict[str, slice] = {}
    for pattern, match in found:
        values = pattern.fields(match)
        for name, word in match.groupdict().items():
            if word is None:
                continue
            if name in places or name not in values or _HUGE.search(word):
                return every  # read twice in one line, or perhaps no value
            places[name] = _in_bytes(line, match.start(name) + begins, match.end(name) + begins)
    names = places.keys()
    dialects = {pattern.dialect.name for pattern, _ in found}
    is_counted = any(pattern.sets or pattern.says for pattern, _ in found)
    if len(dialects) > 1 or names - _LAST_COUNTS - _FIRST_COUNTS or is_counted:
        return every
    fixed = [places[name] for name in sorted(names & _FIRST_COUNTS)]
    fixed += [_in_bytes(line, *span) for span in origin.writer_spans(line)]
    return Shape(
        every.patterns,
        family=sys.intern(repr(([id(pattern) for pattern, _ in found], who.kinds, sorted(names)))),
        fixed=itemgetter(*fixed) if fixed else lambda _: None,
        epoch=places.get("epoch"),
        done=places.get("done"),
        trains=not names.isdisjoint(("train_loss", "steps")),
        stamped=not origin.STAMPED.isdisjoint(who.kinds),
        every=False,
    )


def _in_bytes(line: str, start: int, end: int) -> slice:
    return slice(len(line[:start].encode()), len(line[:end].encode()))


def _general(masked: bytes) -> Shape | None:
    """Return what lines are that no pattern matches; None if none of them says anything."""
    # The digit is one with which top1 and f1 are known, so that no line is missed.
    text = origin.split(masked.replace(b"0", b"1").decode("utf-8", "replace"))[1]
    return Shape(general=True) if figures.may_say_something(text) else None


class _Place(NamedTuple):
    """What the order of lines of different groups can matter for."""

    epoch: bytes | None
    trains: bool
    steps: bool
    """Whether they say how far the epoch is."""


@dataclass(slots=True, eq=False)
class _Group:
    """Lines with the same family and fixed bytes."""

    shape: Shape
    place: _Place
    first: int
    last: int = 0
    lines: int = 0
    chosen: set[int] = field(default_factory=set)


class _Changes:
    """Chooses the lines where the epoch changes, and the lines of the training on both sides."""

    def __init__(self) -> None:
        self._epoch: object = None
        self._trained: tuple[_Group, int] | None = None
        self._trained_at: object = None

    def add(self, before: _Group | None, last: int, group: _Group, index: int) -> None:
        """Take a line of a group that follows on the last line of another one."""
        every, place = group.shape.every, group.place
        if before and (before.place.trains or before.shape.every):
            self._trained = (before, last)
        if every:
            self._epoch = object()  # it may say one
        elif place.epoch is not None:
            if self._epoch != place.epoch:
                group.chosen.add(index)
            self._epoch = place.epoch
        if place.trains or every:
            at: object = object() if every else (self._epoch, place.steps)
            if self._trained and at != self._trained_at:
                self._trained[0].chosen.add(self._trained[1])
                group.chosen.add(index)
            self._trained_at = at


def to_read(shapes: Sequence[Shape | None], lines: Sequence[bytes]) -> dict[int, int]:
    """Return, by their index, the lines that have to be read, and how many lines each stands for."""
    groups = _groups(shapes, lines)
    for group in groups.values():
        group.chosen |= {group.first, group.last}
    if any(group.place.steps for group in groups.values()):
        _choose_last_step(groups, shapes, lines)
    for signature, group in groups.items():
        if group.shape.stamped and not (_has_time(lines[group.first]) and _has_time(lines[group.last])):
            for index, shape in enumerate(shapes):
                if shape and (shape.family, shape.fixed(lines[index])) == signature:
                    group.chosen.add(index)
    found: dict[int, int] = {}
    for group in groups.values():
        found |= dict.fromkeys(group.chosen, 1)
        found[group.first] += group.lines - len(group.chosen)
    return found


def _has_time(line: bytes) -> bool:
    return origin.split(line.decode())[0].time is not None


def _groups(shapes: Sequence[Shape | None], lines: Sequence[bytes]) -> dict[Any, _Group]:
    """Group the lines; this loop sees all of them."""
    groups: dict[Any, _Group] = {}
    changes = _Changes()
    signature: Any = None
    group: Any = None
    last = 0
    for index, shape in enumerate(shapes):
        if shape is None:
            continue
        new = (shape.family, shape.fixed(lines[index]))
        if new != signature:
            signature, before = new, group
            if before:
                before.last = last
            group = groups.get(new)
            if group is None:
                epoch = lines[index][shape.epoch] if shape.epoch else None
                group = groups[new] = _Group(shape, _Place(epoch, shape.trains, shape.done is not None), index)
            if before is None or group.place != before.place or shape.every:
                changes.add(before, last, group, index)
        group.lines += 1
        last = index
    if group:
        group.last = last
    return groups


def _choose_last_step(groups: dict[Any, _Group], shapes: Sequence[Shape | None], lines: Sequence[bytes]) -> None:
    """Choose the last two lines of the training, one after the other, of which the second is farther in the epoch."""
    later: tuple[_Group, int, int] | None = None
    for index in range(len(shapes) - 1, -1, -1):
        shape = shapes[index]
        if shape is None or not (shape.trains or shape.every):
            continue
        if shape.done is None:
            later = None
            continue
        group = groups[shape.family, shape.fixed(lines[index])]
        # Patterns take the digits of every script, of which int() reads text alone.
        done = int(lines[index][shape.done].decode().replace(",", ""))
        if later and later[2] > done:
            group.chosen.add(index)
            later[0].chosen.add(later[1])
            return
        later = (group, index, done)
