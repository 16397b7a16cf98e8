"""Regular expressions that a person wrote, checked before they meet a log.

Two things are read from the parsed expression. The fixed text that every match holds: lines without it are never tried.
And how long a search may take: a repeat within a repeat takes exponential time and is refused, and so is a row of
repeats that can share the same text in too many ways.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

try:
    from re import _constants as _code  # type: ignore[attr-defined]
    from re import _parser as _sre  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as _code
    import sre_parse as _sre
from collections.abc import Iterator

LONGEST = 500
"""Letters of a pattern."""
LINE = 4_096
"""Letters of a line that patterns see."""
MOST_STEPS = 40_000_000
"""Steps that a search of one line may take at worst; about half a second."""
SHORTHANDS = {
    "{number}": r"[-+]?(?:\d{1,20}(?:\.\d{0,30})?|\.\d{1,30}|nan|inf|NaN)(?:[eE][-+]?\d{1,4})?",
    "{int}": r"\d{1,3}(?:,\d\d\d){1,5}|\d{1,18}",
    "{clock}": r"(?:\d{1,4} days?, )?\d{1,4}:\d\d:\d\d(?:\.\d{1,9})?|"
    r"(?:\d{1,5}h ?)?(?:\d{1,5}m(?:in)? ?)?\d{1,9}(?:\.\d{1,9})?s?",
}
_PADDED = re.compile(
    r"(?:(?P<blank> |\\s|\[ \\t\])(?P<times>\?|\*|\{(?P<least>\d{1,3}),?(?P<most>\d{0,3})\})?"
    r"|(?<=[^\w\s.}*+-]))(?P<number>(?:\(\?P<\w+>)?\{(?:number|int)\})"
)
"""A number of a pattern, with the blanks before it: ` {number}`, ` ?{number}`, `:{number}`, but not `v{number}`."""
_PADDING = 16
"""Blanks that may stand before a number, with which programs fill a column: `Epoch:  1`."""
_SCANNED = 32
"""Letters that a repeat runs over in the time of a step, also where nothing but its end can follow."""
_MANY = 10**15
_REPEATS = (_code.MAX_REPEAT, _code.MIN_REPEAT)
_KINDS = {b"w": r"\w+", b"d": r"\d+", b"s": r"\s+"}
"""Kinds of letters, as patterns tell them apart; digits, which are in words too, are a kind of their own."""
PLAIN_FROM = 0x40000
"""From this number on, Unicode has no letters of words, no digits and no spaces."""
_END = 0x110000


class PatternError(ValueError):
    """What is wrong with a pattern, as a part of a sentence."""


def compile_checked(text: str, most_steps: int = MOST_STEPS) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Compile a pattern; return it with the texts that each of its matches holds, the longest one first."""
    if len(text) > LONGEST:
        raise PatternError(f"it has {len(text):,} letters, more than {LONGEST}")
    text = _PADDED.sub(_with_padding, text)
    for word, meaning in SHORTHANDS.items():
        text = text.replace(word, f"(?:{meaning})")
    try:
        pattern = re.compile(text)
        tree = _sre.parse(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"it is broken: {error}") from None
    _refuse_flags(pattern.flags)
    items = list(tree)
    steps = steps_of(items)
    if steps > most_steps:
        raise PatternError(f"a search can take {steps:,} steps; bound its repeats, as in .{{0,40}}, or begin it with ^")
    literals = sorted({one for one in _literals(items) if len(one) >= _shortest(one)}, key=lambda one: (-len(one), one))
    if not literals:
        raise PatternError("it has no fixed text of 3 letters that stands in every match")
    return pattern, tuple(literals)


def _with_padding(found: re.Match[str]) -> str:
    """Return a number of a pattern that takes as many blanks before it as a column may have."""
    blank, times = found["blank"], found["times"]
    least = found["least"] or (1 if blank and not times else 0)
    return f"{blank or ' '}{{{least},{max(_PADDING, int(found['most'] or 0))}}}{found['number']}"


def steps_of(items: list[Any]) -> int:
    """Return how many steps a search of one line may take at worst."""
    anchored = bool(items) and items[0] == (_code.AT, _code.AT_BEGINNING)
    return max(_cost(items, [], _sample(items))) * (1 if anchored else LINE)


def _sample(items: list[Any]) -> frozenset[str]:
    """Return a few letters that stand for all: whatever two places of a pattern both take, one of these is among it.

    From one number that the pattern names to the next, it tells letters apart by their kind alone.
    """
    found = set()
    for begin, end in pairwise(sorted({0, PLAIN_FROM, _END, *_named(items)})):
        places = [begin] if begin >= PLAIN_FROM else [_kinds().find(kind, begin, end) for kind in (*_KINDS, b"-")]
        found |= {chr(place) for place in places if place >= 0}
    return frozenset(found)


@cache
def _kinds() -> bytes:
    """Return the kind of each letter, a byte for each."""
    text = "".join(map(chr, range(PLAIN_FROM)))
    kinds = bytearray(b"-" * PLAIN_FROM)
    for kind, pattern in _KINDS.items():
        for run in re.finditer(pattern, text):
            kinds[run.start() : run.end()] = kind * (run.end() - run.start())
    return bytes(kinds)


def _named(items: Any) -> Iterator[int]:
    """Yield the numbers of letters at which what a pattern takes may change; PatternError if that is no plain one."""
    for kind, value in items:
        if kind in (_code.LITERAL, _code.NOT_LITERAL):
            yield from (value, value + 1)
        elif kind is _code.RANGE:
            yield from (value[0], value[1] + 1)
        elif kind is _code.IN:
            yield from _named(value)
        elif kind is _code.SUBPATTERN:
            _refuse_flags(value[1] | value[2])
            yield from _named(value[3])
        elif kind is _code.BRANCH:
            for branch in value[1]:
                yield from _named(branch)
        elif kind in _REPEATS:
            yield from _named(value[2])
        elif kind not in (_code.ANY, _code.AT, _code.CATEGORY, _code.NEGATE):
            raise PatternError("it looks ahead, behind or back; only plain patterns are taken")


def _refuse_flags(flags: int) -> None:
    if flags & (re.IGNORECASE | re.VERBOSE | re.MULTILINE | re.DOTALL | re.ASCII):
        raise PatternError("it sets flags; write both letters, as in [Ll]oss")


def _shortest(literal: str) -> int:
    return 3 if literal.isascii() else 1


def _literals(items: list[Any]) -> list[str]:
    """Return the texts that each match holds."""
    found: list[str] = []
    run = ""
    for kind, value in items:
        if kind is _code.LITERAL:
            run += chr(value)
            continue
        inner: list[str] = []
        if kind is _code.SUBPATTERN:
            parts = list(value[3])
            if all(part[0] is _code.LITERAL for part in parts):
                run += "".join(chr(part[1]) for part in parts)
                continue
            inner = _literals(parts)
        elif kind in _REPEATS and value[0] > 0:
            inner = _literals(list(value[2]))
        elif kind is _code.AT:
            continue
        found += [run, *inner]
        run = ""
    return [*found, run]


def _cost(items: list[Any], after: list[Any], sample: frozenset[str]) -> tuple[int, int]:
    """Return how many ways there are, at worst, to try what follows these items, and how many steps lead to them."""
    ways, work = 1, 0
    for number, (kind, value) in enumerate(items):
        rest = [*items[number + 1 :], *after]
        if kind is _code.SUBPATTERN:
            more = _cost(list(value[3]), rest, sample)
        elif kind is _code.BRANCH:
            more = _branch_cost([list(branch) for branch in value[1]], rest, sample)
        elif kind in _REPEATS:
            more = _repeat_cost(value, rest, sample)
        else:
            continue
        ways, work = min(ways * more[0], _MANY), min(work + ways * more[1], _MANY)
    return ways, work


def _repeat_cost(value: Any, rest: list[Any], sample: frozenset[str]) -> tuple[int, int]:
    least, most, body = value[0], min(int(value[1]), LINE), list(value[2])
    shares = bool(_first(body, sample) & _first(rest, sample))
    if most == 1:
        ways, work = _cost(body, rest, sample)
        return ways + shares, work
    if _varies(body):
        if most > _FEW:
            raise PatternError("a repeat stands within a repeat: it can take exponential time")
        ways, work = _cost(body, rest, sample)
        ways = (ways + 1) ** most
        return ways, ways * work
    return max(1, most - least + 1) if shares else 1, most // _SCANNED


def _branch_cost(branches: list[list[Any]], rest: list[Any], sample: frozenset[str]) -> tuple[int, int]:
    """Branches that begin with letters of their own exclude each other; others add up."""
    firsts = [_first(branch, sample) for branch in branches]
    ways, work = zip(*(_cost(branch, rest, sample) for branch in branches), strict=True)
    are_apart = sum(map(len, firsts)) == len(frozenset().union(*firsts))
    return max(ways) if are_apart else sum(ways), sum(work)


_FEW = 5


def _varies(items: list[Any]) -> bool:
    """Whether what is repeated can match in more than one way or length."""
    for kind, value in items:
        if kind in _REPEATS and (value[0] != value[1] or _varies(list(value[2]))):
            return True
        if kind is _code.BRANCH or (kind is _code.SUBPATTERN and _varies(list(value[3]))):
            return True
    return False


def _first(items: list[Any], sample: frozenset[str]) -> frozenset[str]:
    """Return the letters, of a sample of all, that may begin a match of these items."""
    found: frozenset[str] = frozenset()
    for kind, value in items:
        if kind is _code.AT:
            continue
        if kind in _REPEATS:
            found |= _first(list(value[2]), sample)
            if value[0] == 0:
                continue
        elif kind is _code.SUBPATTERN:
            found |= _first(list(value[3]), sample)
            if not value[3].getwidth()[0]:
                continue
        elif kind is _code.BRANCH:
            for branch in value[1]:
                found |= _first(list(branch), sample)
            if any(not branch.getwidth()[0] for branch in value[1]):
                continue
        else:
            found |= letters_of(kind, value, sample)
        return found
    return found


def letters_of(kind: Any, value: Any, sample: frozenset[str]) -> frozenset[str]:
    """Return the letters, of a sample of all, that one place of a pattern takes."""
    if kind is _code.ANY:
        return sample
    if kind is _code.LITERAL:
        return sample & {chr(value)}
    return _matching(_class_of(kind, value), sample)


@lru_cache(maxsize=128)
def _matching(text: str, sample: frozenset[str]) -> frozenset[str]:
    one = re.compile(text)
    return frozenset(letter for letter in sample if one.match(letter))


def _class_of(kind: Any, value: Any) -> str:
    """Write a set of letters as a pattern again."""
    if kind is _code.NOT_LITERAL:
        return f"[^{re.escape(chr(value))}]"
    words: list[str] = []
    for part, what in value:
        if part is _code.NEGATE:
            words.insert(0, "^")
        elif part is _code.LITERAL:
            words.append(re.escape(chr(what)))
        elif part is _code.RANGE:
            words.append(f"{re.escape(chr(what[0]))}-{re.escape(chr(what[1]))}")
        else:
            words.append(_CATEGORIES[what])
    return f"[{''.join(words)}]"


_CATEGORIES = {
    _code.CATEGORY_DIGIT: r"\d",
    _code.CATEGORY_NOT_DIGIT: r"\D",
    _code.CATEGORY_SPACE: r"\s",
    _code.CATEGORY_NOT_SPACE: r"\S",
    _code.CATEGORY_WORD: r"\w",
    _code.CATEGORY_NOT_WORD: r"\W",
}
