r"""Load dialects: YAML files with patterns for the lines of a program.

    name: pytorch-mnist
    about: The MNIST example of pytorch/examples
    lines:
      - pattern: 'Train Epoch: (?P<epoch>{int}) .{0,40}Loss: (?P<train_loss>{number})'
        example: "Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.3"

Errors name the file and line of the mistake.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from runner.core import yaml_reader
from runner.core.errors import did_you_mean
from runner.logs import origin
from runner.logs.pattern import (
    COUNTED,
    FIELDS,
    LINE,
    NEED_UNITS,
    UNITS,
    PatternError,
    compile_pattern,
    is_cut,
    value_of,
)

FOLDER = Path(__file__).parent / "dialects"
LAUNCHERS = "launchers"
PLAIN = "plain"
"""Dialect that counts only if no other dialect reads a line of the training."""
MLPERF = "mlperf"
"""Name for MLPerf's events, which have no YAML file."""
NONE = "none"
"""Name for no dialect at all: only the lines of launchers are read."""
PART = "a number may be cut off or only partly read"
BELOW = "a value below 0"
_REPLACED = {"train_loss", "step", "steps", "done", "total", "throughput", "epoch"}
"""Fields whose later values replace earlier values of the same writer and epoch."""
_COUNT, _DIGIT = re.compile(r"\{\d*,?\d*\}"), re.compile(r"\d")
_PLACE = re.compile(r"\.(\w+)|\[(\d+)\]")
_Text = Annotated[str, Meta(min_length=1, pattern=r"\S")]


class Line(msgspec.Struct):
    """Entry of `lines` in a dialect's file."""

    pattern: str
    example: _Text
    units: dict[str, str] = {}
    says: Literal["completed", "failed", "trouble", "ignored"] | None = None
    """Effect of a match on the status; `trouble` is a failure unless the training goes on."""
    scope: str | None = None
    weak: bool = False
    """Whether values count only if no other line states them."""
    after: str | None = None
    """Pattern that the line above must match."""


class _File(msgspec.Struct):
    name: _Text
    about: _Text
    lines: Annotated[list[Line], Meta(min_length=1, max_length=15)]
    best: Literal["computed", "stated"] = "computed"


class Value(NamedTuple):
    """Value of a field and the line that states it."""

    value: Any
    line: int
    unit: str | None = None
    scope: str | None = None
    weak: bool = False
    is_guessed: bool = False
    """Whether the unit was inferred from the size of the value."""
    epoch: float | int | None = None
    samples: int | None = None
    """Number of samples behind an accuracy."""

    @property
    def comparable(self) -> float:
        """Return a number for comparisons: 0.985 for 98.5 percent."""
        number: float = self.value / 100 if self.unit == "percent" else self.value
        return number


@dataclass(frozen=True, eq=False)
class Pattern:
    """Compiled entry of `lines` in a dialect's file."""

    dialect: "Dialect" = field(repr=False)
    line: Line
    regex: re.Pattern[str]
    literals: tuple[str, ...]
    """Texts that every matching line contains, the longest first."""
    after: re.Pattern[str] | None
    takes_any_digits: bool
    """Whether lines that differ only in digits match alike."""
    is_replaced: bool
    """Whether the next match replaces the values of a match."""

    def matches(self, text: str, above: bytes | None = None) -> Iterator[re.Match[str]]:
        """Yield the matches in the beginning of a line; none if the line above does not match `after`."""
        if self.after and above is not None:
            before = origin.split(above.decode("utf-8", "replace"))[1]
            if not self.after.search(before[:LINE]):
                return iter(())
        return self.regex.finditer(text[:LINE])

    def read(self, match: re.Match[str], line: int, *, is_torn: bool = False) -> tuple[dict[str, Value], list[str]]:
        """Return the values of a match, and the reason for each value that is left out.

        `is_torn` means that the end of the line is missing.
        """
        values: dict[str, Value] = {}
        wrong = []
        for name, text in match.groupdict().items():
            if text is None:
                continue
            if is_cut(match, name, is_torn=is_torn, is_counted=name in COUNTED):
                wrong.append(PART)
                continue
            if text.startswith("-") and not name.endswith("loss"):
                wrong.append(BELOW)
                continue
            unit = self.line.units.get(name)
            if (value := value_of(match, name, unit)) is not None:
                is_guessed = unit == "fraction"
                unit = "percent" if is_guessed and value > 1 else unit
                values[name] = Value(value, line, unit, self.line.scope, self.line.weak, is_guessed)
        return values, wrong


@dataclass(frozen=True)
class Dialect:
    """Patterns for the lines of one kind of program."""

    name: str
    best: str
    """How the best evaluation is found: `computed` from all evaluations, or only `stated` by a line."""
    patterns: list[Pattern] = field(default_factory=list)


def load(path: Path) -> Dialect:
    """Load a dialect. Raises RequestError, with file and line, if the file has a mistake."""
    return _dialect(yaml_reader.read(path))


def names() -> tuple[str, ...]:
    """Return the names of the kit's dialects."""
    return (*sorted(path.stem for path in FOLDER.glob("*.yaml")), MLPERF, NONE)


@cache
def built_in() -> tuple[Dialect, ...]:
    """Return the kit's dialects."""
    return tuple(load(path) for path in sorted(FOLDER.glob("*.yaml")))


def dialects_with(paths: Sequence[Path]) -> tuple[Dialect, ...]:
    """Return the kit's dialects and the dialects in files.

    A dialect in a file replaces the kit's dialect of the same name.
    """
    return tuple({dialect.name: dialect for dialect in (*built_in(), *map(load, paths))}.values())


def chosen(texts: Mapping[str, str]) -> tuple[Dialect, ...]:
    """Return the dialects in a mapping of names to texts, and the launchers' dialect.

    The text '' stands for the kit's dialect of that name.
    """
    known = {dialect.name: dialect for dialect in built_in()}
    named = (
        _dialect(yaml_reader.parse(text, name)) if text else known[name]
        for name, text in texts.items()
        if text or name in known
    )
    return (*named, known[LAUNCHERS])


def _dialect(document: yaml_reader.Document) -> Dialect:
    values = document.values
    if not isinstance(values, dict):
        document.fail("a dialect needs the keys name, about and lines")
    document.only_keys(_File.__struct_fields__)
    for number, entry in enumerate(values["lines"] if isinstance(values.get("lines"), list) else ()):
        if isinstance(entry, dict):
            document.only_keys(Line.__struct_fields__, "lines", number)
    try:
        file = msgspec.convert(values, _File)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        document.fail(message, *(name or int(number) for name, number in _PLACE.findall(path)))
    dialect = Dialect(file.name, file.best)
    for number, line in enumerate(file.lines):
        try:
            pattern = _pattern(dialect, line)
        except PatternError as error:
            document.fail(f"unusable pattern: {error}", "lines", number, "pattern")
        for message, *key in _mistakes(pattern):
            document.fail(message, "lines", number, *key)
        dialect.patterns.append(pattern)
    return dialect


def _pattern(dialect: Dialect, line: Line) -> Pattern:
    regex, literals = compile_pattern(line.pattern)
    after = compile_pattern(line.after)[0] if line.after is not None else None
    any_digits = "(?P=" not in line.pattern and not _DIGIT.search(_COUNT.sub("", regex.pattern))
    is_replaced = any_digits and not (regex.groupindex.keys() - _REPLACED or line.says or after)
    return Pattern(dialect, line, regex, literals, after, any_digits, is_replaced)


def _mistakes(pattern: Pattern) -> Iterator[tuple[str, ...]]:
    units, fields = pattern.line.units, pattern.regex.groupindex.keys()
    for name in fields - FIELDS:
        yield f"unknown field '{name}'{did_you_mean(name, sorted(FIELDS))}", "pattern"
    for name, unit in units.items():
        if name not in fields or unit not in UNITS.get(name, (unit,)):
            yield f"{unit!r} is not a unit of a field '{name}' in the pattern", "units", name
    for name in sorted(NEED_UNITS & fields - units.keys()):
        yield f"'{name}' needs a unit: one of {', '.join(UNITS[name])}", "pattern"
    match = next(pattern.matches(origin.split(pattern.line.example)[1]), None)
    if match is None:
        yield "the pattern does not match its example", "example"
    elif lost := {name for name, text in match.groupdict().items() if text} - pattern.read(match, 0)[0].keys():
        yield f"'{min(lost)}' has no valid value in the example", "example"
