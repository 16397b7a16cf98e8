"""Meaning and remedy of well-known failures (`hints.yaml`), matched with the last lines of a run."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from runner.core import yaml_reader

DATA = Path(__file__).with_suffix(".yaml")
OUT_OF_MEMORY = "out_of_memory"
"""End of a process whose container ran out of memory."""
_LONGEST = 4_096


class Hint(NamedTuple):
    """One well-known failure; `hints.yaml` says what each field is, and where its message is explained."""

    name: str
    means: str
    do: str
    says: re.Pattern[str]
    anywhere: re.Pattern[str]
    needs: re.Pattern[str]
    """Patterns of the failure itself without which `anywhere` does not count; `with` in the data."""
    ended: frozenset[str]

    def fits(self, said: list[str], printed: list[str]) -> bool:
        """Return whether the lines of a failure, or those before them, have its patterns."""
        return _has(said, self.says) or (_has(printed, self.anywhere) and _has(said, self.needs))


@cache
def hints() -> dict[str, Hint]:
    """Return all hints by name, in the order in which they are tried."""
    return {fields["name"]: _hint(**fields) for fields in yaml_reader.read(DATA).values["hints"]}


def find(said: list[str], printed: list[str], ended: Iterable[str]) -> str | None:
    """Return the first hint that fits the lines of a failure, all last lines, or how the process ended."""
    ends = set(ended)
    fitting = [hint.name for hint in hints().values() if hint.fits(said, printed)]
    by_end = [hint.name for hint in hints().values() if ends & hint.ended]
    return next(iter(by_end if OUT_OF_MEMORY in ends else fitting + by_end), None)


def _hint(**fields: Any) -> Hint:
    says, anywhere, needs = ("|".join(fields.get(key, ())) or "(?!)" for key in ("says", "anywhere", "with"))
    patterns = re.compile(says), re.compile(anywhere), re.compile(needs)
    return Hint(fields["name"], fields["means"], fields["do"], *patterns, frozenset(fields.get("ended", ())))


def _has(lines: list[str], pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(line[:_LONGEST]) for line in lines)
