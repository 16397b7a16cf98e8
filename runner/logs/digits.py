"""Regular expressions that treat all digits alike: whether and where they match does not depend on which digits stand.

Most patterns do: `{int}` takes any digits. One with `100%` or `[1-9]` does not.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from runner.logs.pattern import MOST_STEPS, letters_of, steps_of

try:
    from re import _compiler  # type: ignore[attr-defined]
    from re import _constants as _code  # type: ignore[attr-defined]
    from re import _parser as _sre  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_compile as _compiler
    import sre_constants as _code
    import sre_parse as _sre
import re

MASK = bytes.maketrans(b"123456789", b"0" * 9)
"""Makes one line of all that differ in their digits alone."""
_DIGITS = frozenset("0123456789")
_ANY_DIGIT = (_code.CATEGORY, _code.CATEGORY_DIGIT)


@cache
def for_any_digits(pattern: re.Pattern[str]) -> re.Pattern[str] | None:
    r"""Return the pattern itself if it treats all digits alike.

    Otherwise return one that matches wherever the pattern does, and wherever it would with other digits: of `100%`
    that is `\d\d\d%`. None if a search for that one could take too long.
    """
    tree = _sre.parse(pattern.pattern)
    if not _widen(tree):
        return pattern
    widened: re.Pattern[str] = _compiler.compile(tree)
    return widened if steps_of(list(tree)) <= MOST_STEPS else None


def _widen(items: Any) -> bool:
    """Let each place that takes a digit take all of them; return whether that changed anything."""
    changed = False
    for number, (kind, value) in enumerate(items):
        if kind is _code.SUBPATTERN:
            changed |= _widen(value[3])
        elif kind is _code.BRANCH:
            for branch in value[1]:
                changed |= _widen(branch)
        elif kind in (_code.MAX_REPEAT, _code.MIN_REPEAT):
            changed |= _widen(value[2])
        elif kind is not _code.AT and letters_of(kind, value, _DIGITS) not in (_DIGITS, frozenset()):
            items[number] = _with_all_digits(kind, value)
            changed = True
    return changed


def _with_all_digits(kind: Any, value: Any) -> tuple[Any, Any]:
    if kind is _code.LITERAL:
        return (_code.IN, [_ANY_DIGIT])
    if kind is _code.IN and value[0][0] is not _code.NEGATE:
        return (_code.IN, [*value, _ANY_DIGIT])
    return (_code.ANY, None)
