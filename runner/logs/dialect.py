r"""Dialects: YAML files that say how the lines of a program are read.

    name: pytorch-mnist
    about: The MNIST example of pytorch/examples
    lines:
      - pattern: 'Train Epoch: (?P<epoch>{int}) .{0,40}Loss: (?P<train_loss>{number})'
        example: "Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.3"

A mistake in one is reported with its file and line when it is loaded.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from runner.core import yaml_reader
from runner.core.errors import did_you_mean
from runner.logs import origin
from runner.logs.fields import ABOVE_ONE, COUNTED, FIELDS, NEED_UNITS, UNITS, is_cut, value_of
from runner.logs.pattern import LINE, PatternError, compile_pattern

FOLDER = Path(__file__).parent / "dialects"
LAUNCHERS = "launchers"
PLAIN = "plain"
"""The dialect that counts only where no other one reads a line of the training."""
MLPERF = "mlperf"
"""The name of MLPerf's own events, which have no YAML file."""
NONE = "none"
"""No dialect: only what launchers say of the program is read."""
LARGEST_BYTES = yaml_reader.LARGEST_BYTES
_COUNT, _DIGIT = re.compile(r"\{\d*,?\d*\}"), re.compile(r"\d")
_PLACE = re.compile(r"\.(\w+)|\[(\d+)\]")
_Text = Annotated[str, Meta(min_length=1, pattern=r"\S")]


class Line(msgspec.Struct):
    """One kind of line, as a file has it."""

    pattern: str
    example: _Text
    units: dict[str, str] = {}
    says: Literal["completed", "failed", "trouble", "elided", "ignored"] | None = None
    """What it says of the run. `trouble` is a failure unless the training goes on; what is `ignored` is none."""
    scope: str | None = None
    weak: bool = False
    """What it says counts only where nothing else says it."""
    after: str | None = None
    """What the line before has to match."""


class _File(msgspec.Struct):
    name: _Text
    about: _Text
    lines: Annotated[list[Line], Meta(min_length=1, max_length=15)]
    best: Literal["computed", "stated"] = "computed"


class Value(NamedTuple):
    """A value and where it stands."""

    value: Any
    line: int
    unit: str | None = None
    scope: str | None = None
    weak: bool = False
    is_guessed: bool = False
    """Whether the unit is known only by the size of the value."""
    epoch: float | int | None = None
    samples: int | None = None
    """The number of samples that an accuracy is of."""

    @property
    def comparable(self) -> float:
        """Return a number to compare with others: of 98.5 percent 0.985."""
        number: float = self.value / 100 if self.unit == "percent" else self.value
        return number


@dataclass(frozen=True)
class Pattern:
    """One kind of line, compiled."""

    dialect: "Dialect" = field(repr=False)
    line: Line
    regex: re.Pattern[str]
    literals: tuple[str, ...]
    """The texts in every line that matches, the longest one first."""
    after: re.Pattern[str] | None
    takes_any_digits: bool
    """Whether it matches all lines that differ in their digits alone, or none of them."""

    def matches(self, text: str) -> list[re.Match[str]]:
        """Return each match in a line, of which only the beginning is read."""
        if text.count(self.literals[0], 0, LINE) > 1:
            return list(self.regex.finditer(text[:LINE]))
        found = self.regex.search(text[:LINE])
        return [found] if found else []

    def fits_after(self, above: str) -> bool:
        """Return whether such a line may follow the last line of a text."""
        if self.after is None:
            return True
        before = origin.split(above.rstrip("\n \r").rpartition("\n")[2])[1]
        return bool(self.after.search(before[:LINE]))

    def read(self, found: re.Match[str], line: int) -> tuple[dict[str, Value], bool]:
        """Return the values of a match, and whether one was left out that is only the beginning of a number."""
        values: dict[str, Value] = {}
        has_cut = False
        for name, text in found.groupdict().items():
            if text is None:
                continue
            if name not in COUNTED and is_cut(found, name):
                has_cut = True
                continue
            unit = self.line.units.get(name)
            is_guessed = unit == "share" or (unit == "fraction" and name not in ABOVE_ONE)
            if (value := value_of(name, text, unit)) is not None:
                unit = ("fraction" if value <= 1 else "percent") if is_guessed else unit
                values[name] = Value(value, line, unit, self.line.scope, self.line.weak, is_guessed)
        return values, has_cut


@dataclass(frozen=True)
class Dialect:
    """How the lines of one kind of program are read."""

    name: str
    about: str
    best: str
    """Whether the best evaluation is computed from all, or only taken where a line states it."""
    patterns: list[Pattern] = field(default_factory=list)


def load(path: Path) -> Dialect:
    """Read a dialect; RequestError with file and line for a mistake in it."""
    return _dialect(yaml_reader.read(path))


def names() -> tuple[str, ...]:
    """Return the names of the dialects of the kit."""
    return (*sorted(path.stem for path in FOLDER.glob("*.yaml")), MLPERF, NONE)


@cache
def built_in() -> tuple[Dialect, ...]:
    """Return the dialects of the kit."""
    return tuple(load(path) for path in sorted(FOLDER.glob("*.yaml")))


def chosen(texts: Mapping[str, str]) -> tuple[Dialect, ...]:
    """Return dialects by name, or by their text if there is one, and what launchers say; MLPerf's events are in all."""
    own = {dialect.name: dialect for dialect in built_in()}
    named = (
        _dialect(yaml_reader.parse(text, name)) if text else own[name]
        for name, text in texts.items()
        if text or name in own
    )
    return (*named, own[LAUNCHERS])


def _dialect(document: yaml_reader.Document) -> Dialect:
    values = document.values
    if not isinstance(values, dict):
        document.fail("a dialect has the keys name, about and lines")
    document.only_keys(_File.__struct_fields__)
    for number, entry in enumerate(values["lines"] if isinstance(values.get("lines"), list) else ()):
        if isinstance(entry, dict):
            document.only_keys(Line.__struct_fields__, "lines", number)
    try:
        file = msgspec.convert(values, _File)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        document.fail(message, *(name or int(number) for name, number in _PLACE.findall(path)))
    dialect = Dialect(file.name, file.about, file.best)
    for number, line in enumerate(file.lines):
        dialect.patterns.append(_pattern(document, dialect, line, number))
    return dialect


def _pattern(document: yaml_reader.Document, dialect: Dialect, line: Line, number: int) -> Pattern:
    try:
        regex, literals = compile_pattern(line.pattern)
        after = compile_pattern(line.after)[0] if line.after is not None else None
    except PatternError as error:
        document.fail(f"this pattern cannot be used: {error}", "lines", number, "pattern")
    any_digits = "(?P=" not in line.pattern and not _DIGIT.search(_COUNT.sub("", regex.pattern))
    pattern = Pattern(dialect, line, regex, literals, after, any_digits)
    for message, *key in _mistakes(pattern):
        document.fail(message, "lines", number, *key)
    return pattern


def _mistakes(pattern: Pattern) -> Iterator[tuple[str, ...]]:
    """Yield what is wrong with a pattern, and the key of its line that is to be changed."""
    units, fields = pattern.line.units, pattern.regex.groupindex.keys()
    for name in fields - set(FIELDS):
        yield f"unknown field '{name}'{did_you_mean(name, FIELDS)}", "pattern"
    if not (fields or pattern.line.says):
        yield "it has no named field, as in (?P<epoch>{int}), nor 'says'", "pattern"
    for name, unit in units.items():
        if name not in fields:
            yield f"'{name}' is no field of the pattern", "units", name
        if unit not in UNITS.get(name, ()):
            yield f"{unit!r} is no unit of '{name}'{did_you_mean(unit, UNITS.get(name, ()))}", "units", name
    for name in sorted(NEED_UNITS & fields - units.keys()):
        yield f"'{name}' needs a unit: one of {', '.join(UNITS[name])}", "pattern"
    found = pattern.matches(origin.split(pattern.line.example)[1])
    if not found:
        yield "the pattern does not match its example", "example"
    elif lost := [name for name in found[0].groupdict() if found[0][name] and name not in pattern.read(found[0], 0)[0]]:
        yield f"'{lost[0]}' of the example is no value", "example"
