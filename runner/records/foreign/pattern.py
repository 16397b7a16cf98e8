"""Regular expressions that a person wrote, checked before they meet a log.

Two things are read from the parsed expression. The fixed text that every match holds: lines without it are never tried.
And how long a search may take: a repeat within a repeat takes exponential time and is refused, and so is a row of
repeats that can share the same text in too many ways.
"""

from __future__ import annotations

import re
from typing import Any

try:
    from re import _constants as _code  # type: ignore[attr-defined]
    from re import _parser as _sre  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as _code
    import sre_parse as _sre

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
_REPEATS = (_code.MAX_REPEAT, _code.MIN_REPEAT)
_ALPHABET = [chr(number) for number in range(256)] + list("秒进程训练耗时总速度提高准确率损失轮█━。\uff1a\uff0c")


class PatternError(ValueError):
    """What is wrong with a pattern, as a part of a sentence."""


def compile_checked(text: str, most_steps: int = MOST_STEPS) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Compile a pattern; return it with the texts that each of its matches holds, the longest one first."""
    if len(text) > LONGEST:
        msg = f"it has {len(text):,} letters, more than {LONGEST}"
        raise PatternError(msg)
    for word, meaning in SHORTHANDS.items():
        text = text.replace(word, f"(?:{meaning})")
    try:
        pattern = re.compile(text)
        tree = _sre.parse(text)
    except (re.error, OverflowError, RecursionError) as error:
        msg = f"it is broken: {error}"
        raise PatternError(msg) from None
    if pattern.flags & (re.IGNORECASE | re.VERBOSE | re.MULTILINE | re.DOTALL | re.ASCII):
        msg = "it sets flags; write both letters, as in [Ll]oss"
        raise PatternError(msg)
    items = list(tree)
    steps = steps_of(items)
    if steps > most_steps:
        msg = f"a search can take {steps:,} steps; bound its repeats, as in .{{0,40}}, or begin it with ^"
        raise PatternError(msg)
    literals = sorted({one for one in _literals(items) if len(one) >= _shortest(one)}, key=lambda one: (-len(one), one))
    if not literals:
        msg = "it has no fixed text of 3 letters that stands in every match"
        raise PatternError(msg)
    return pattern, tuple(literals)


def steps_of(items: list[Any]) -> int:
    """Return how many steps a search of one line may take at worst."""
    anchored = bool(items) and items[0] == (_code.AT, _code.AT_BEGINNING)
    return _cost(items, []) * (1 if anchored else LINE)


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


def _cost(items: list[Any], after: list[Any]) -> int:
    """Return how many ways there are, at worst, to try what follows the beginning of a match."""
    steps = 1
    for number, (kind, value) in enumerate(items):
        rest = [*items[number + 1 :], *after]
        if kind is _code.SUBPATTERN:
            steps *= _cost(list(value[3]), rest)
        elif kind is _code.BRANCH:
            steps *= _branch_cost([list(branch) for branch in value[1]], rest)
        elif kind in _REPEATS:
            steps *= _repeat_cost(value, rest)
        elif kind not in (_code.LITERAL, _code.NOT_LITERAL, _code.IN, _code.ANY, _code.AT):
            msg = "it looks ahead, behind or back; only plain patterns are taken"
            raise PatternError(msg)
        steps = min(steps, 10**15)
    return steps


def _repeat_cost(value: Any, rest: list[Any]) -> int:
    least, most, body = value[0], value[1], list(value[2])
    ways = min(int(most), LINE) - least + 1
    if most == 1:
        return _cost(body, rest) + (1 if _first(body) & _first(rest) else 0)
    if _varies(body):
        if most > _FEW:
            msg = "a repeat stands within a repeat: it can take exponential time"
            raise PatternError(msg)
        return int((_cost(body, rest) + 1) ** most)
    return ways if _first(body) & _first(rest) else 1


def _branch_cost(branches: list[list[Any]], rest: list[Any]) -> int:
    """Branches that begin with letters of their own exclude each other; others add up."""
    firsts = [_first(branch) for branch in branches]
    costs = [_cost(branch, rest) for branch in branches]
    return max(costs) if sum(map(len, firsts)) == len(frozenset().union(*firsts)) else sum(costs)


_FEW = 5


def _varies(items: list[Any]) -> bool:
    """Whether what is repeated can match in more than one way or length."""
    for kind, value in items:
        if kind in _REPEATS and (value[0] != value[1] or _varies(list(value[2]))):
            return True
        if kind is _code.BRANCH or (kind is _code.SUBPATTERN and _varies(list(value[3]))):
            return True
    return False


def _first(items: list[Any]) -> frozenset[str]:
    """Return the letters, of a sample of all, that may begin a match of these items."""
    found: frozenset[str] = frozenset()
    for kind, value in items:
        if kind is _code.AT:
            continue
        if kind in _REPEATS:
            found |= _first(list(value[2]))
            if value[0] == 0:
                continue
        elif kind is _code.SUBPATTERN:
            found |= _first(list(value[3]))
            if not value[3].getwidth()[0]:
                continue
        elif kind is _code.BRANCH:
            for branch in value[1]:
                found |= _first(list(branch))
            if any(not branch.getwidth()[0] for branch in value[1]):
                continue
        else:
            found |= letters_of(kind, value)
        return found
    return found


def letters_of(kind: Any, value: Any) -> frozenset[str]:
    """Return the letters, of a sample of all, that one place of a pattern takes."""
    if kind is _code.ANY:
        return frozenset(_ALPHABET)
    if kind is _code.LITERAL:
        return frozenset((chr(value),))
    one = re.compile(_class_of(kind, value))
    return frozenset(letter for letter in _ALPHABET if one.match(letter))


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
