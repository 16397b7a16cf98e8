"""Meaning and remedy of well-known failures (`hints.yaml`), matched with the last lines of a run."""

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path

import msgspec

from runner.core import yaml_reader

OUT_OF_MEMORY = "out_of_memory"
"""End of a process whose container ran out of memory."""
_LONGEST = 4_096


class Hint(msgspec.Struct, rename={"needs": "with"}):
    """One well-known failure; `hints.yaml` says what each field is."""

    name: str
    means: str
    do: str
    source: str
    says: list[str] = []
    anywhere: list[str] = []
    needs: list[str] = []
    ended: list[str] = []


@cache
def hints() -> dict[str, Hint]:
    """Return all hints by name, in the order in which they are tried."""
    data = yaml_reader.read(Path(__file__).with_suffix(".yaml")).values["hints"]
    return {hint.name: hint for hint in msgspec.convert(data, list[Hint])}


def find(said: list[str], printed: list[str], ended: Collection[str]) -> str | None:
    """Return the first hint that fits the lines of a failure, all last lines, or how the process ended."""
    fitting = [
        hint.name
        for hint in hints().values()
        if _has(said, hint.says) or (_has(printed, hint.anywhere) and _has(said, hint.needs))
    ]
    by_end = [hint.name for hint in hints().values() if {*ended} & {*hint.ended}]
    return next(iter(by_end if OUT_OF_MEMORY in ended else fitting + by_end), None)


def _has(lines: list[str], patterns: list[str]) -> bool:
    found = re.compile("|".join(patterns) or "(?!)")
    return any(found.search(line[:_LONGEST]) for line in lines)
