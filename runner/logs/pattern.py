"""Regular expressions of dialects and metrics, and the fixed text that every match of one holds.

Python's parser of expressions tells the fixed text that every match holds: lines without it are never tried.
"""

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
SHORTHANDS = {
    "{number}": r"[-+]?(?:\d{1,20}(?:\.\d{0,30})?|\.\d{1,30}|nan|NaN|NAN|[iI]nf(?:inity)?|INF)(?:[eE][-+]?\d{1,4})?",
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
_SETS_FLAGS = "it sets flags; write both letters, as in [Ll]oss"
_FLAGS = re.IGNORECASE | re.VERBOSE | re.MULTILINE | re.DOTALL | re.ASCII
_REPEATS = (_code.MAX_REPEAT, _code.MIN_REPEAT)


class PatternError(ValueError):
    """What is wrong with a pattern, as a part of a sentence."""


def compile_pattern(text: str, least: int = 3) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Compile a pattern; return it with the texts that each of its matches holds, the longest one first."""
    if len(text) > LONGEST:
        raise PatternError(f"it has {len(text):,} letters, more than {LONGEST}")
    text = _PADDED.sub(_with_padding, text)
    for word, meaning in SHORTHANDS.items():
        text = text.replace(word, f"(?:{meaning})")
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"it is broken: {error}") from None
    if pattern.flags & _FLAGS:
        raise PatternError(_SETS_FLAGS)
    found = {literal for literal in _literals(_sre.parse(text)) if len(literal) >= (least if literal.isascii() else 1)}
    if not found:
        raise PatternError(f"every match has to contain the same {least} or more letters, for example loss")
    return pattern, tuple(sorted(found, key=lambda literal: (-len(literal), literal)))


def _with_padding(found: re.Match[str]) -> str:
    """Return a number of a pattern that takes as many blanks before it as a column may have."""
    blank, times = found["blank"], found["times"]
    least = found["least"] or (1 if blank and not times else 0)
    return f"{blank or ' '}{{{least},{max(_PADDING, int(found['most'] or 0))}}}{found['number']}"


def _literals(items: Any) -> list[str]:
    """Return the texts that each match holds."""
    found: list[str] = []
    run = ""
    for kind, value in items:
        if kind is _code.LITERAL:
            run += chr(value)
            continue
        inner: list[str] = []
        if kind is _code.SUBPATTERN:
            if value[1] | value[2]:
                raise PatternError(_SETS_FLAGS)
            if all(part[0] is _code.LITERAL for part in value[3]):
                run += "".join(chr(part[1]) for part in value[3])
                continue
            inner = _literals(value[3])
        elif kind in _REPEATS and value[0] > 0:
            inner = _literals(value[2])
        elif kind is _code.AT:
            continue
        found += [run, *inner]
        run = ""
    return [*found, run]
