r"""Dialects: YAML files that say how the lines of a program are read.

    name: pytorch-mnist
    about: The MNIST example of pytorch/examples
    lines:
      - pattern: 'Train Epoch: (?P<epoch>{int}) .{0,40}Loss: (?P<train_loss>{number})'
        example: "Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.3"

Whatever is wrong with one is said in one line with its file and line, when it is loaded.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from runner.core import yaml_reader
from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.core.values import whole
from runner.logs import origin
from runner.logs.fields import COUNTED, FIELDS, LONGEST_WORD, NEED_UNITS, UNITS, value_of
from runner.logs.pattern import LINE, PatternError, compile_pattern

FOLDER = Path(__file__).parent / "dialects"
SAYS = ("completed", "failed", "trouble", "elided", "ignored")
"""What a line may say about the whole run. `trouble` is a failure unless the training goes on after it; what is
`ignored` is none."""
MOST_PATTERNS = 15
LAUNCHERS = "launchers"
PLAIN = "plain"
"""The dialect that counts only where no other one reads a line of the training."""
MLPERF = "mlperf"
"""The name of MLPerf's own events, which are no YAML file."""
NONE = "none"
"""The name that stands for no dialect: of such a program only what launchers say is read."""
LARGEST_BYTES = yaml_reader.LARGEST_BYTES
_BEST = ("computed", "stated")
_KEYS = ("pattern", "example", "units", "says", "scope", "weak", "after", "sets")
_COUNT, _DIGIT = re.compile(r"\{\d*,?\d*\}"), re.compile(r"\d")
_POINTS = (",", ".")
"""What stands between the digits of a number that is cut: `0` of 0,4193."""


@dataclass(frozen=True)
class Pattern:
    """One kind of line of a dialect."""

    dialect: "Dialect" = field(repr=False)
    regex: re.Pattern[str]
    literals: tuple[str, ...]
    """The texts that stand in every line that matches, the longest one first."""
    example: str
    units: dict[str, str]
    says: str | None
    scope: str | None
    weak: bool
    """Whether what it reads only counts where nothing else says it."""
    after: re.Pattern[str] | None
    """What the line before has to match."""
    sets: dict[str, Any]
    """Values that the line means without writing them."""
    place: str = ""
    """Its file and line."""
    takes_any_digits: bool = False
    """Whether it matches all lines that differ in their digits alone, or none of them."""

    def matches(self, text: str) -> list[re.Match[str]]:
        """Return each match in a line, of which only the beginning is looked at."""
        if text.count(self.literals[0], 0, LINE) > 1:
            return list(self.regex.finditer(text[:LINE]))
        found = self.regex.search(text[:LINE])
        return [found] if found else []

    def fits_after(self, above: str) -> bool:
        """Return whether the line before, the last one of some, is one after which such a line may come."""
        if self.after is None:
            return True
        before = origin.split(above.rstrip("\n \r").rpartition("\n")[2])[1]
        return bool(self.after.search(before[:LINE]))

    def fields(self, found: re.Match[str]) -> dict[str, Any]:
        """Return the values of a match; what is no number, or only the beginning of one, is left out."""
        values = dict(self.sets)
        for name, text in found.groupdict().items():
            if text is None or _is_cut(found, name):
                continue
            if (value := value_of(name, text, self.units.get(name))) is not None:
                values[name] = value
        return values

    def is_cut(self, found: re.Match[str]) -> bool:
        """Return whether a match holds only the beginning of a number, for example of 0,4193."""
        return any(_is_cut(found, name) for name in self.regex.groupindex)


def _is_cut(found: re.Match[str], name: str) -> bool:
    at, text = found.end(name), found.string
    return name not in COUNTED and text[at : at + 1] in _POINTS and text[at + 1 : at + 2].isdigit()


@dataclass(frozen=True)
class Dialect:
    """How the lines of one kind of program are read."""

    name: str
    about: str
    best: str
    """Whether the best evaluation is computed from all, or only taken where a line states it."""
    built_in: bool = False
    patterns: list[Pattern] = field(default_factory=list)


def load(path: Path) -> Dialect:
    """Read a dialect; RequestError with file and line for whatever is wrong with it."""
    return _Loader(yaml_reader.read(path), built_in=path.parent == FOLDER).dialect()


def parse(text: str, name: str) -> Dialect:
    """Read the text of a dialect; `name` is only for the messages."""
    return _Loader(yaml_reader.parse(text, name), built_in=False).dialect()


def names() -> tuple[str, ...]:
    """Return the names of the dialects that come with the kit."""
    return (*sorted(path.stem for path in FOLDER.glob("*.yaml")), MLPERF, NONE)


@cache
def built_in() -> tuple[Dialect, ...]:
    """Return the dialects that come with the kit."""
    return tuple(load(path) for path in sorted(FOLDER.glob("*.yaml")))


def chosen(texts: Mapping[str, str]) -> tuple[Dialect, ...]:
    """Return dialects by name, or by their text if there is one, and what launchers say; MLPerf's events are in all."""
    own = {dialect.name: dialect for dialect in built_in()}
    named = (parse(text, name) if text else own[name] for name, text in texts.items() if text or name in own)
    return (*named, own[LAUNCHERS])


class _Loader:
    """Reads one document, and notes all that is wrong with it."""

    def __init__(self, document: yaml_reader.Document, *, built_in: bool) -> None:
        self._document, self._built_in = document, built_in
        self._problems: list[str] = []

    def dialect(self) -> Dialect:
        """Return the dialect; RequestError with a line for each problem."""
        values = self._document.values
        if not isinstance(values, dict):
            self._document.fail("a dialect has the keys name, about and lines")
        self._check_keys(values, ("name", "about", "best", "lines"))
        for key in ("name", "about"):
            if not isinstance(values.get(key), str) or not values[key].strip():
                self._note(f"'{key}' has to be a text", key)
        best = values.get("best", "computed")
        if best not in _BEST:
            self._note(f"'best' is {' or '.join(_BEST)}", "best")
        lines = values.get("lines")
        if not isinstance(lines, list) or not lines or len(lines) > MOST_PATTERNS:
            self._note(f"'lines' has to be a list of 1 to {MOST_PATTERNS} patterns", "lines")
            lines = []
        dialect = Dialect(str(values.get("name")), str(values.get("about")), best, self._built_in)
        for number, entry in enumerate(lines):
            if pattern := self._pattern(dialect, entry, "lines", number):
                dialect.patterns.append(pattern)
        if self._problems:
            file = one_line(self._document.file)
            lines_of = {problem: int(problem.removeprefix(file).split(":")[1]) for problem in self._problems}
            raise RequestError("\n".join(sorted(lines_of, key=lines_of.__getitem__)))
        return dialect

    def _note(self, message: str, *place: str | int) -> None:
        try:
            self._document.fail(message, *place)
        except RequestError as error:
            self._problems.append(str(error))

    def _check_keys(self, mapping: dict[str, Any], known: tuple[str, ...], *place: str | int) -> None:
        for key in mapping:
            if key not in known:
                self._note(f"unknown key '{key}'{did_you_mean(key, known)}", *place, key)

    def _pattern(self, dialect: Dialect, entry: Any, *place: str | int) -> Pattern | None:
        """Read one pattern; None if it cannot be compiled."""
        if not isinstance(entry, dict):
            self._note("a line is read by a pattern with an example", *place)
            return None
        self._check_keys(entry, _KEYS, *place)
        if entry.get("says") not in (None, *SAYS):
            self._note(f"'says' is one of {', '.join(SAYS)}", *place, "says")
        for key, kind in (("example", str), ("scope", str), ("weak", bool)):
            if key in entry and not isinstance(entry[key], kind):
                self._note(f"'{key}' has to be {'a text' if kind is str else 'true or false'}", *place, key)
        after = self._compiled(entry["after"], *place, "after") if "after" in entry else None
        sets = self._sets(entry, *place)
        compiled = self._compiled(entry.get("pattern"), *place, "pattern")
        if compiled is None:
            return None
        regex, literals = compiled
        for name in regex.groupindex:
            if name not in FIELDS:
                self._note(f"unknown field '{name}'{did_you_mean(name, FIELDS)}", *place, "pattern")
        if not (regex.groupindex or "sets" in entry or entry.get("says")):
            self._note("it has no named field, as in (?P<epoch>{int}), nor 'says' or 'sets'", *place, "pattern")
        pattern = Pattern(
            dialect,
            regex,
            literals,
            str(entry.get("example", "")),
            self._units(entry, regex, *place),
            entry.get("says"),
            entry.get("scope"),
            entry.get("weak", False),
            after and after[0],
            sets,
            f"{one_line(self._document.file)}:{self._document.lines.get((*place, 'pattern'), 1)}",
            self._built_in and not _DIGIT.search(_COUNT.sub("", regex.pattern)),
        )
        if not self._problems:
            self._check_example(pattern, *place)
        return pattern

    def _sets(self, entry: dict[str, Any], *place: str | int) -> dict[str, Any]:
        sets = entry.get("sets", {})
        if not isinstance(sets, dict) or not all(name in ("backend", "world_size", "nnodes") for name in sets):
            self._note("'sets' gives backend, world_size or nnodes a value", *place, "sets")
            return {}
        for name, value in sets.items():
            if name == "backend" and not (isinstance(value, str) and 0 < len(value) <= LONGEST_WORD):
                self._note(f"'{name}' has to be a text of at most {LONGEST_WORD} letters", *place, "sets", name)
            if name != "backend" and whole(value, 1) is None:
                self._note(f"'{name}' has to be a whole number from 1", *place, "sets", name)
        return sets

    def _compiled(self, text: Any, *place: str | int) -> tuple[re.Pattern[str], tuple[str, ...]] | None:
        if not isinstance(text, str):
            self._note(f"'{place[-1]}' has to be a regular expression", *place)
            return None
        try:
            return compile_pattern(text)
        except PatternError as error:
            self._note(f"this pattern cannot be used: {error}", *place)
            return None

    def _units(self, entry: dict[str, Any], regex: re.Pattern[str], *place: str | int) -> dict[str, str]:
        units = entry.get("units", {})
        if not isinstance(units, dict):
            self._note("'units' names the unit of a field, as in wall: ms", *place, "units")
            return {}
        for name, unit in units.items():
            known = UNITS.get(name, ())
            if name not in regex.groupindex:
                self._note(f"'{name}' is no field of the pattern", *place, "units", name)
            elif unit not in known:
                self._note(f"{unit!r} is no unit of '{name}'{did_you_mean(unit, known)}", *place, "units", name)
        for name in sorted(NEED_UNITS & regex.groupindex.keys() - units.keys()):
            self._note(f"'{name}' needs a unit: one of {', '.join(UNITS[name])}", *place, "pattern")
        return units

    def _check_example(self, pattern: Pattern, *place: str | int) -> None:
        """Refuse a pattern that does not read its own example, so that a mistake is seen before a log is."""
        if not pattern.example:
            self._note("it has no 'example': a line that it reads", *place)
            return
        found = pattern.matches(origin.split(pattern.example)[1])
        if not found:
            self._note("the pattern does not match its example", *place, "example")
            return
        values = pattern.fields(found[0])
        missing = [name for name, text in found[0].groupdict().items() if text is not None and name not in values]
        if missing:
            self._note(f"'{missing[0]}' of the example is no value", *place, "example")
