"""What a well-known failure means and what to do: the data of `hints.yaml`, matched with what a run printed last.

Each pattern has a text that each of its matches holds, and without which it is not tried.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

from runner.core import yaml_reader
from runner.logs.pattern import LINE, compile_pattern

DATA = Path(__file__).with_suffix(".yaml")
OUT_OF_MEMORY = "out_of_memory"
"""How a process ended whose container reports that its memory was used up."""


@dataclass(frozen=True)
class Pattern:
    """A regular expression, and a text that stands in each of its matches."""

    regex: re.Pattern[str]
    literal: str

    def matches(self, lines: Iterable[str]) -> bool:
        """Return whether it is found in one of the lines."""
        return any(self.literal in line and self.regex.search(line[:LINE]) for line in lines)


@dataclass(frozen=True)
class Hint:
    """One well-known failure; `hints.yaml` says what each field is, and where its message is explained."""

    name: str
    means: str
    do: str
    says: tuple[Pattern, ...]
    anywhere: tuple[Pattern, ...]
    needs: tuple[Pattern, ...]
    """What the failure itself has to say so that `anywhere` counts; `with` in the data."""
    ended: tuple[str, ...]

    def fits(self, said: list[str], printed: list[str]) -> bool:
        """Return whether the lines of a failure, or those before them, have its patterns."""
        if any(pattern.matches(said) for pattern in self.says):
            return True
        is_needed = any(pattern.matches(said) for pattern in self.needs)
        return is_needed and any(pattern.matches(printed) for pattern in self.anywhere)


@cache
def hints() -> dict[str, Hint]:
    """Return all hints by name, in the order in which they are tried."""
    found = {}
    for fields in yaml_reader.read(DATA).values["hints"]:
        name, means, do = (fields[key] for key in ("name", "means", "do"))
        says, anywhere, needs = (tuple(map(_pattern, fields.get(key, ()))) for key in ("says", "anywhere", "with"))
        found[name] = Hint(name, means, do, says, anywhere, needs, tuple(fields.get("ended", ())))
    return found


def find(said: list[str], printed: list[str], ended: Iterable[str]) -> str | None:
    """Return the name of the first hint that fits what a failure said, all that was printed last, and how it ended."""
    ends = set(ended)
    if OUT_OF_MEMORY in ends:
        return next(hint.name for hint in hints().values() if OUT_OF_MEMORY in hint.ended)
    fitting = (hint.name for hint in hints().values() if hint.fits(said, printed))
    by_end = (hint.name for hint in hints().values() if ends.intersection(hint.ended))
    return next(chain(fitting, by_end), None)


def _pattern(text: str) -> Pattern:
    regex, literals = compile_pattern(text)
    return Pattern(regex, literals[0])
