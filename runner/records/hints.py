"""What a well-known failure means and what to do: the data of `hints.yaml`, matched with what a run printed last.

Each pattern has a text that each of its matches holds, and without which it is not tried.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from runner.core import yaml_reader
from runner.logs.pattern import LINE, PatternError, compile_pattern

DATA = Path(__file__).with_suffix(".yaml")
OUT_OF_MEMORY = "out_of_memory"
"""How a process ended whose container reports that its memory was used up."""
_KEYS = ("name", "means", "do", "source", "says", "anywhere", "with", "ended")


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
    """One well-known failure; `hints.yaml` says what each field is."""

    name: str
    means: str
    do: str
    source: str
    says: tuple[Pattern, ...]
    anywhere: tuple[Pattern, ...]
    needs: tuple[Pattern, ...]
    """What the failure itself has to say so that `anywhere` counts; `with` in the data."""
    ended: tuple[str, ...]

    def fits(self, said: list[str], printed: list[str]) -> bool:
        """Return whether the lines of a failure, or those before them, have its patterns."""
        if _any(self.says, said):
            return True
        return _any(self.needs, said) and _any(self.anywhere, printed)


@cache
def hints() -> dict[str, Hint]:
    """Return all hints by name, in the order in which they are tried; RequestError if the data is broken."""
    document = yaml_reader.read(DATA)
    document.only_keys(("hints",))
    found: dict[str, Hint] = {}
    for number, fields in enumerate(document.values["hints"]):
        document.only_keys(_KEYS, "hints", number)
        hint = _hint(document, number, fields)
        if hint.name in found:
            document.fail(f"'{hint.name}' stands twice", "hints", number, "name")
        found[hint.name] = hint
    return found


def find(said: list[str], printed: list[str], ended: Iterable[str]) -> str | None:
    """Return the name of the first hint that fits a failure.

    Args:
        said: the lines in which the failure itself is said.
        printed: all that was printed last, on stderr and stdout.
        ended: how the process ended: its signal, `out_of_memory`.
    """
    ends = set(ended)
    if OUT_OF_MEMORY in ends:
        return next(hint.name for hint in hints().values() if OUT_OF_MEMORY in hint.ended)
    for hint in hints().values():
        if hint.fits(said, printed):
            return hint.name
    return next((hint.name for hint in hints().values() if ends.intersection(hint.ended)), None)


def _any(patterns: Iterable[Pattern], lines: list[str]) -> bool:
    return any(pattern.matches(lines) for pattern in patterns)


def _hint(document: yaml_reader.Document, number: int, fields: dict[str, Any]) -> Hint:
    says, anywhere, needs = (
        tuple(_compiled(document, number, key, index) for index in range(len(fields.get(key, ()))))
        for key in ("says", "anywhere", "with")
    )
    name, means, do, source = (str(fields[key]) for key in ("name", "means", "do", "source"))
    return Hint(name, means, do, source, says, anywhere, needs, ended=tuple(fields.get("ended", ())))


def _compiled(document: yaml_reader.Document, number: int, key: str, index: int) -> Pattern:
    text = document.values["hints"][number][key][index]
    try:
        regex, literals = compile_pattern(text)
    except PatternError as error:
        document.fail(f"pattern {text!r}: {error}", "hints", number, key, index)
    return Pattern(regex, literals[0])
