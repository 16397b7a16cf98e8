"""Figures that a person names: `--metric loss='loss: ({number})'`, and `metrics:` in a definition."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.logs.pattern import LINE, PatternError, compile_pattern
from runner.logs.values import MOST_WRITERS, Value, Writer

NAME = "[a-z][a-z0-9_]{0,39}"
BEST = ("max", "min")
_CUT = re.compile(r"[.,]?\d|[eE][-+]?\d")
"""What follows a number of which a group holds only the beginning: 1 of 1e-05, 0 of 0,4193."""


@dataclass
class Metric:
    """One expression, and what its group held."""

    name: str
    regex: re.Pattern[str]
    literals: tuple[str, ...]
    best: str | None = None
    said: dict[Writer, tuple[Value, Value | None]] = field(default_factory=dict)
    """The last value of each writer, and its best."""

    def add(self, text: str, line: int, writer: Writer) -> None:
        """Take the matches of a line; what is no whole number, such as the 1 of 1e-05, is kept as NaN."""
        for found in self.regex.finditer(text[:LINE]):
            value = Value(_number(found), line)
            best = self.said.get(writer, (None, None))[1]
            if self.best and math.isfinite(value.value):
                best = value if best is None else (max if self.best == "max" else min)(best, value, key=_value)
            self.said[writer] = value, best
        if len(self.said) > 2 * MOST_WRITERS:
            self.said = dict(sorted(self.said.items())[:MOST_WRITERS])

    def summary(self) -> dict[str, Any] | None:
        """Return what the lowest rank said last, and its best."""
        if not self.said:
            return None
        last, best = self.said[min(self.said)]
        found = {"value": last.value if math.isfinite(last.value) else None, "line": last.line}
        return found | ({"best": best.value, "best_line": best.line} if best else {})


def _value(value: Value) -> Any:
    return value.value


def _number(found: re.Match[str]) -> float:
    try:
        is_cut = _CUT.match(found.string, found.end(1)) or "_" in found[1]  # float() takes 1_000 for 1000
        return math.nan if is_cut else float(found[1].replace(",", ""))
    except (AttributeError, TypeError, ValueError):  # TypeError: an optional group that matched nothing
        return math.nan


def compiled(metrics: Mapping[str, Mapping[str, str]]) -> dict[str, Metric]:
    """Compile the metrics of a record; RequestError for what cannot be used."""
    return {name: _compiled(name, said["pattern"], said.get("best")) for name, said in metrics.items()}


def _compiled(name: str, text: str, best: str | None = None) -> Metric:
    try:
        regex, literals = compile_pattern(text, 1)
        metric = Metric(name, regex, literals, best)
    except PatternError as error:
        raise RequestError(one_line(f"metric {name}: {text}: {error}")) from None
    if regex.groups != 1:
        why = f"it has {regex.groups} groups; exactly one holds the number, as in loss: ({{number}})"
        raise RequestError(one_line(f"metric {name}: {text}: {why}"))
    return metric


def read_words(words: list[str]) -> dict[str, dict[str, str]]:
    """Return the metrics that `--metric NAME=REGEX` name; RequestError for a word that names none."""
    found = {}
    for word in words:
        name, equals, pattern = word.partition("=")
        if not equals or not re.fullmatch(NAME, name):
            raise RequestError(one_line(f"--metric {word}: write NAME=REGEX, for example loss='loss: ({{number}})'"))
        if name in found:
            raise RequestError(f"--metric {name}: it is given twice")
        found[name] = {"pattern": pattern}
    compiled(found)
    return found
