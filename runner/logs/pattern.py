"""Regular expressions of dialects: what every match of one holds, and how long a person's own may take.

Python's parser of expressions tells the fixed text that every match holds: lines without it are never tried.
"""

import re
import time
from collections import Counter
from typing import Any

try:
    from re import _constants as _code  # type: ignore[attr-defined]
    from re import _parser as _sre  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as _code
    import sre_parse as _sre

from runner.core.errors import RequestError

LONGEST = 500
"""Letters of a pattern."""
LINE = 4_096
"""Letters of a line that patterns see."""
SECONDS = 5.0
"""Processor time that all patterns of a person's dialect may take for a log of any size."""
SECONDS_PER_BYTE = 1e-7
"""Processor time for each byte of a log; all dialects of the kit together take about a tenth of it."""
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
_BRACE = re.compile(r"\\N\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}(?<!\{\})|(\{)", re.DOTALL)
"""A brace that `re` takes for itself, as in `loss{e}`, and `regex` for an approximate match; and what may look so.

The others are escapes, sets as `[^{]`, and counts as `{2,3}`.
"""
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
    tree = _sre.parse(text)
    _refuse_unlike(tree)
    found = {literal for literal in _literals(tree) if len(literal) >= (least if literal.isascii() else 1)}
    if not found:
        raise PatternError(f"it has no fixed text of {least} letters that stands in every match")
    return pattern, tuple(sorted(found, key=lambda literal: (-len(literal), literal)))


def _with_padding(found: re.Match[str]) -> str:
    """Return a number of a pattern that takes as many blanks before it as a column may have."""
    blank, times = found["blank"], found["times"]
    least = found["least"] or (1 if blank and not times else 0)
    return f"{blank or ' '}{{{least},{max(_PADDING, int(found['most'] or 0))}}}{found['number']}"


def _refuse_unlike(items: Any) -> None:
    """Raise PatternError for what is no plain pattern."""
    for kind, value in items:
        if kind is _code.SUBPATTERN:
            if (value[1] | value[2]) & _FLAGS:
                raise PatternError(_SETS_FLAGS)
            _refuse_unlike(value[3])
        elif kind is _code.BRANCH:
            for branch in value[1]:
                _refuse_unlike(branch)
        elif kind in _REPEATS:
            _refuse_unlike(value[2])
        elif kind not in (_code.LITERAL, _code.NOT_LITERAL, _code.IN, _code.ANY, _code.AT):
            raise PatternError("it looks ahead, behind or back; only plain patterns are taken")


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


class Budget:
    """The processor time that the patterns of a person's dialect have taken of a log, and may take.

    They are searched by the library `regex`, which ends a search at the time limit; `re` cannot.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin a log."""
        self._left = SECONDS
        self._used: Counter[str] = Counter()

    def add_bytes(self, count: int) -> None:
        """Allow the time for some more bytes."""
        self._left += count * SECONDS_PER_BYTE

    def find(self, pattern: Any, text: str, place: str, *, once: bool) -> list[re.Match[str]]:
        """Search a text; RequestError once the time is spent, with the place of the pattern that took most of it."""
        found: list[re.Match[str]] = []
        begun = time.thread_time()
        try:
            if not once:
                found = list(pattern.finditer(text, timeout=self._left))
            elif match := pattern.search(text, timeout=self._left):
                found = [match]
        except TimeoutError:
            self._left = 0.0
        taken = time.thread_time() - begun
        self._left -= taken
        self._used[place] += taken  # type: ignore[assignment]
        if self._left < 0:
            (slowest, most), *_ = self._used.most_common(1)
            raise RequestError(
                f"{slowest}: this pattern took {most:.1f} s of a log, and all of its dialect more than they may: "
                "bound its repeats, as in .{0,40}, or begin it with ^"
            )
        return found


def with_time_limit(pattern: re.Pattern[str]) -> Any:
    """Return the same pattern of the library `regex`."""
    import regex  # type: ignore[import-untyped]  # only a person's own dialect needs it

    try:
        return regex.compile(_BRACE.sub(lambda found: found[0] if found[1] is None else r"\{", pattern.pattern))
    except regex.error as error:
        raise PatternError(f"it is broken: {error}") from None
