"""Read figures with the user's regular expressions: `--metric loss='loss: ({number})'` or a definition's `metrics:`."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.logs.origin import MOST_WRITERS, Who
from runner.logs.pattern import LINE, PatternError, compile_pattern, is_cut

NAME = "[a-z][a-z0-9_]{0,39}"
_BEGIN = re.compile(r"(?<!\d)(?<!\d[.,eE])")
_GLUED = re.compile(r"(?!(?:[num]?s|min|h|x)\b)\w")
"""Rest of a word after a number, as in 0x1F, 3e or 5k, but not a unit, as in 12s."""
_NUMBER = re.compile(r"[-+]?(?:(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(eq=False)
class Metric:
    """Compiled expression of a metric, and the values that it matched."""

    regex: re.Pattern[str]
    literals: tuple[str, ...]
    best: str | None = None
    said: dict[Who, list[tuple[float, int]]] = field(default_factory=dict)
    """Last and best value of each writer, with their lines."""

    def add(self, text: str, line: int, who: Who, *, is_torn: bool) -> None:
        """Add the matches of a line. A partial number, such as the 1 of 1e-05, counts as NaN."""
        for match in self.regex.finditer(text[:LINE]):
            new = _number(match, is_torn=is_torn), line
            best = self.said.get(who, [new])[-1]
            is_better = new[0] > best[0] if self.best == "max" else new[0] < best[0]
            if who in self.said or len(self.said) < MOST_WRITERS:
                self.said[who] = [new, new if is_better or not math.isfinite(best[0]) else best]

    def summary(self) -> dict[str, Any] | None:
        """Return the last and the best value of the lowest writer; None if no line matched."""
        if not self.said:
            return None
        (value, line), (best, best_line) = self.said[min(self.said)]
        last = {"value": value if math.isfinite(value) else None, "line": line}
        return last | ({"best": best, "best_line": best_line} if self.best and math.isfinite(best) else {})


def _number(match: re.Match[str], *, is_torn: bool) -> float:
    text = (match[1] or "").strip()
    is_glued = match.end() == match.end(1) and _GLUED.match(match.string, match.end())
    is_whole = _NUMBER.fullmatch(text) and _BEGIN.match(match.string, match.start(1)) and not is_glued
    return float(text.replace(",", "")) if is_whole and not is_cut(match, 1, is_torn=is_torn) else math.nan


def compiled(metrics: Mapping[str, Mapping[str, str]]) -> dict[str, Metric]:
    """Compile the metrics of a record. Raises RequestError if an expression is unusable."""
    found = {}
    for name, said in metrics.items():
        try:
            regex, literals = compile_pattern(said["pattern"], 1)
        except PatternError as error:
            raise RequestError(one_line(f"metric {name}: {said['pattern']}: {error}")) from None
        if regex.groups != 1:
            raise RequestError(f"metric {name}: needs exactly one group, for the number, as in loss: ({{number}})")
        found[name] = Metric(regex, literals, said.get("best"))
    return found


def read_words(words: list[str]) -> dict[str, dict[str, str]]:
    """Parse the `NAME=REGEX` arguments of `--metric`. Raises RequestError if an argument is invalid."""
    found: dict[str, dict[str, str]] = {}
    for word in words:
        name, equals, pattern = word.partition("=")
        if not equals or not re.fullmatch(NAME, name) or name in found:
            raise RequestError(
                one_line(f"--metric {word}: write NAME=REGEX, each name once, as in loss='loss: ({{number}})'")
            )
        found[name] = {"pattern": pattern}
    compiled(found)
    return found
