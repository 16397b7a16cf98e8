"""Compile regular expressions of dialects and metrics, and convert the values of their groups.

Python's expression parser shows which fixed texts every match of an expression contains. An expression is tried only on
lines that contain these texts.
"""

import math
import re
from typing import Any

from runner.core.errors import did_you_mean

try:
    from re import _constants as _code  # type: ignore[attr-defined]
    from re import _parser as _sre  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as _code
    import sre_parse as _sre

LINE = 4_096
"""Maximum characters of a line that are searched."""
METRICS = ("auc", "accuracy", "f1", "bleu", "map", "dice", "perplexity", "val_loss", "wer")
"""Metrics of evaluations, in order of preference."""
LOWER_IS_BETTER = {"perplexity", "val_loss", "wer"}
_MAY_DIVERGE = {"train_loss", "val_loss", "perplexity"}
_WHOLE = {"epochs", "step", "steps", "done", "total", "correct", "of", "world_size", "nnodes", "nproc", "rank"}
_WHOLE |= {"ranks_listed"}
COUNTED = {"epoch", *_WHOLE, "backend"}
"""Fields that are counts or names, not measured values."""
FIELDS = COUNTED | {"train_loss", "run_loss", *METRICS, "best_accuracy", "wall", "throughput", "speedup"}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_RATES = ("samples/s", "tokens/s", "images/s", "steps/s", "it/s", "ms/step", "s/step", "GB/s", "MB/s", "TFLOPS")
UNITS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("accuracy", "best_accuracy", "f1", "map", "dice"), ("fraction", "percent")),
    "wall": (*_SECONDS, "clock"),
    "throughput": _RATES,
}
"""Allowed units of fields; other fields take any unit."""
NEED_UNITS = {"accuracy", "best_accuracy", "wall", "throughput"}
"""Fields that need a unit."""
_SHORTHANDS = {
    "{number}": r"[-+]?(?:\d{1,20}(?:\.\d{0,30})?|\.\d{1,30}|nan|NaN|NAN|[iI]nf(?:inity)?|INF)(?:[eE][-+]?\d{1,4})?",
    "{int}": r"\d{1,3}(?:,\d\d\d){1,5}|\d{1,18}",
    "{clock}": r"(?:\d{1,4} days?, )?\d{1,4}:\d\d:\d\d(?:\.\d{1,9})?|"
    r"(?:\d{1,5}h ?)?(?:\d{1,5}m(?:in)? ?)?\d{1,9}(?:\.\d{1,9})?s?",
}
_PADDED = re.compile(
    r"(?:(?P<blank> |\\s|\[ \\t\])(?P<times>\?|\*|\{(?P<least>\d{1,3}),?(?P<most>\d{0,3})\})?"
    r"|(?<=[^\w\s.}*+-]))(?P<number>(?:\(\?P<\w+>)?\{(?:number|int)\})"
)
"""A number in a pattern with its blanks: ` {number}`, ` ?{number}`, `:{number}`, but not `v{number}`."""
_PADDING = 16
"""Maximum blanks before a number that is aligned in a column: `Epoch:  1`."""
_FLAGS = re.IGNORECASE | re.VERBOSE | re.MULTILINE | re.DOTALL | re.ASCII
_NAME = re.compile(r"(?<!\\)\{([A-Za-z_]\w*)\}")
_CUT = re.compile(r"[.,]?\d|[eE][-+]?\d")
_THOUSANDS = re.compile(r"[ '\u2019\u00a0\u202f]\d{3}(?!\d)")
_CLOCK = re.compile(r"(?:(\d{1,4}) days?, )?(\d{1,4}):(\d\d):(\d\d(?:\.\d{1,9})?)")
_WORDS = re.compile(r"(?:(\d{1,5}) ?(?:h|小时) ?)?(?:(\d{1,5}) ?(?:m|min|分钟?) ?)?(\d{1,9}(?:\.\d{1,9})?) ?(?:s|秒)?")


class PatternError(ValueError):
    """Mistake in a pattern. The message is written to follow a colon."""


def compile_pattern(text: str, least: int = 3) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return the compiled pattern, and the fixed texts that every match contains, the longest first.

    Raises PatternError if the pattern is invalid, or if no fixed text has `least` characters.
    """
    text = _PADDED.sub(_with_padding, text)
    for word, meaning in _SHORTHANDS.items():
        text = text.replace(word, f"(?:{meaning})")
    if unknown := _NAME.search(text):
        raise PatternError(f"unknown {unknown[0]}{did_you_mean(unknown[0], _SHORTHANDS)}")
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"invalid expression: {error}") from None
    literals = {one for one in _literals(_sre.parse(text)) if len(one) >= (least if one.isascii() else 1)}
    if pattern.flags & _FLAGS or not literals:
        raise PatternError(f"every match must contain the same {least} or more letters, and flags are not allowed")
    return pattern, tuple(sorted(literals, key=lambda literal: (-len(literal), literal)))


def is_cut(match: re.Match[str], group: str | int, *, is_torn: bool, is_counted: bool = False) -> bool:
    """Return whether a group may hold only part of a number, such as the `0` of `0,4193` or the `1` of `1e-05`.

    A number at the end of a torn line may be partial, and so may a final `0.`. A count may have a comma
    after it.
    """
    text, end = match[group], match.end(group)
    if end == len(match.string) and (is_torn or end == LINE or text.endswith(".")):
        return True
    digits = text.lstrip("+-")
    is_short = digits.isdigit() and len(digits) <= 3
    is_begun = _CUT.match(match.string, end) or (is_short and _THOUSANDS.match(match.string, end))
    return bool(is_begun and not is_counted)


def value_of(match: re.Match[str], field: str, unit: str | None) -> Any:
    """Return the value of a field in a match; None if the text is invalid. Only losses may be NaN or infinite."""
    text = match[field]
    if field == "backend" or unit == "clock":
        return text.lower() if field == "backend" else _seconds(text)
    try:
        number: float = (int if field in _WHOLE else float)(text.replace(",", ""))
    except ValueError:
        return None
    if isinstance(number, int) or not math.isfinite(number):
        return number if field in _WHOLE or field in _MAY_DIVERGE else None
    if field == "wall" and unit != "s":
        return round(number * _SECONDS[unit or "s"], 9)
    return int(number) if field == "epoch" and "." not in text and number.is_integer() else number


def _seconds(text: str) -> float | None:
    if match := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes, rest = match.groups()
    elif match := _WORDS.fullmatch(text.strip()):
        days, (hours, minutes, rest) = 0, match.groups()
    else:
        return None
    return round(((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + float(rest), 9)


def _with_padding(match: re.Match[str]) -> str:
    blank = match["blank"]
    least = match["least"] or (1 if blank and not match["times"] else 0)
    return f"{blank or ' '}{{{least},{max(_PADDING, int(match['most'] or 0))}}}{match['number']}"


def _literals(items: Any) -> list[str]:
    texts: list[str] = []
    run = ""
    for kind, value in items:
        inner: list[str] = []
        if kind is _code.LITERAL:
            run += chr(value)
            continue
        if kind is _code.AT:
            continue
        if kind is _code.SUBPATTERN:
            if value[1] | value[2]:
                raise PatternError("flags are not allowed; write both letters, as in [Ll]oss")
            inner = _literals(value[3])
        elif kind in (_code.MAX_REPEAT, _code.MIN_REPEAT) and value[0] > 0:
            inner = _literals(value[2])
        texts += [run, *inner]
        run = ""
    return [*texts, run]
