"""Figures that a person names: `--metric loss='loss: ({number})'`, and `metrics:` in a definition."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.logs.facts import MOST_WRITERS
from runner.logs.fields import is_cut
from runner.logs.pattern import LINE, PatternError, compile_pattern

NAME = "[a-z][a-z0-9_]{0,39}"
BEST = ("max", "min")


class _Said(NamedTuple):
    value: float
    line: int
    best: float = math.nan
    best_line: int = 0


@dataclass
class Metric:
    """One expression, and what its group held."""

    name: str
    regex: re.Pattern[str]
    literals: tuple[str, ...]
    best: str | None = None
    said: dict[tuple[int, int, str], _Said] = field(default_factory=dict)
    """The last value of each writer, and its best."""

    def add(self, text: str, line: int, writer: tuple[int, int, str]) -> None:
        """Take the matches of a line; what is no whole number, such as the 1 of 1e-05, is kept as NaN."""
        for found in self.regex.finditer(text[:LINE]):
            value = _number(found)
            _, _, best, place = self.said.get(writer, _Said(value, line))
            if not math.isfinite(best) or (value > best if self.best == "max" else value < best):
                best, place = value, line
            if writer in self.said or len(self.said) < MOST_WRITERS:
                self.said[writer] = _Said(value, line, best, place)

    def summary(self) -> dict[str, Any] | None:
        """Return what the lowest rank said last, and its best."""
        if not self.said:
            return None
        value, line, best, best_line = self.said[min(self.said)]
        found = {"value": value if math.isfinite(value) else None, "line": line}
        return found | ({"best": best, "best_line": best_line} if self.best and math.isfinite(best) else {})


def _number(found: re.Match[str]) -> float:
    try:
        is_part = is_cut(found, 1) or "_" in found[1]  # float() takes 1_000 for 1000
        return math.nan if is_part else float(found[1].replace(",", ""))
    except (AttributeError, TypeError, ValueError):  # the first two: an optional group that matched nothing
        return math.nan


def compiled(metrics: Mapping[str, Mapping[str, str]]) -> dict[str, Metric]:
    """Compile the metrics of a record; RequestError for what cannot be used."""
    found = {}
    for name, said in metrics.items():
        why = ""
        try:
            regex, literals = compile_pattern(said["pattern"], 1)
            found[name] = Metric(name, regex, literals, said.get("best"))
            if regex.groups != 1:
                why = f"it has {regex.groups} groups; exactly one holds the number, as in loss: ({{number}})"
        except PatternError as error:
            why = str(error)
        if why:
            raise RequestError(one_line(f"metric {name}: {said['pattern']}: {why}"))
    return found


def read_words(words: list[str]) -> dict[str, dict[str, str]]:
    """Return the metrics that `--metric NAME=REGEX` name; RequestError for a word that names none."""
    found: dict[str, dict[str, str]] = {}
    for word in words:
        name, equals, pattern = word.partition("=")
        if not equals or not re.fullmatch(NAME, name):
            raise RequestError(one_line(f"--metric {word}: write NAME=REGEX, for example loss='loss: ({{number}})'"))
        if name in found:
            raise RequestError(f"--metric {name}: it is given twice")
        found[name] = {"pattern": pattern}
    compiled(found)
    return found
