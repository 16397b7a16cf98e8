r"""Dialects: YAML files that say how the lines of a program are read.

    name: pytorch-mnist
    about: The MNIST example of pytorch/examples
    lines:
      - pattern: 'Train Epoch: (?P<epoch>{int}) .{0,40}Loss: (?P<train_loss>{number})'
        example: "Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.3"

Whatever is wrong with one is said in one line with its file and line, when it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from runner.core import yaml_reader
from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.core.values import whole
from runner.logs import origin
from runner.logs.budget import Budget
from runner.logs.fields import COUNTED, FIELDS, NEED_UNITS, UNITS, value_of
from runner.logs.pattern import LINE, PatternError, compile_checked

FOLDER = Path(__file__).parent / "dialects"
SAYS = ("completed", "failed", "trouble", "elided", "ignored")
"""What a line may say about the whole run. `trouble` is a failure unless the training goes on after it; what is
`ignored` is none."""
MOST_PATTERNS = 60
LAUNCHERS = "launchers"
GENERAL = "general"
"""The name that stands for lines in no known dialect, which are no YAML file either."""
MLPERF = "mlperf"
"""The name of MLPerf's own events, which are no YAML file."""
NONE = "none"
"""The name that stands for no dialect: of such a program only what launchers say is read."""
LARGEST_BYTES = yaml_reader.LARGEST_BYTES
_OFTEN = {"train_loss", "epoch", "accuracy", "auc", "val_loss"}
_BEST = ("computed", "stated")
_KEYS = ("pattern", "example", "units", "says", "scope", "weak", "after", "sets", "ends")
_ABOUT = "lines that no dialect knows, as far as they name an epoch, a loss or an evaluation again and again"
_LONGEST_WORD = 60
_POINTS = (",", ".")
"""What stands between the digits of a number that is cut: `0` of 0,4193."""


@dataclass(frozen=True)
class Pattern:
    """One kind of line of a dialect."""

    dialect: Dialect = field(repr=False)
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
    ends: bool = False
    """Whether it is looked for only at both ends of a log, because the last one counts."""

    @property
    def everywhere(self) -> bool:
        """Whether such lines are looked for in all of a log: those of the training and of evaluations."""
        return not self.ends and (not self.dialect.built_in or not _OFTEN.isdisjoint(self.regex.groupindex))

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Yield each match in a line, of which only the beginning is looked at."""
        text = text[:LINE]
        if text.count(self.literals[0]) > 1:
            yield from self.search(text, find=lambda regex, line: list(regex.finditer(line)))
        elif found := self.search(text):
            yield found

    def search(self, text: str, regex: re.Pattern[str] | None = None, find: Any = re.Pattern.search) -> Any:
        """Search a line, or another expression of the pattern in it; of a person's dialect the time is counted."""
        regex = regex or self.regex
        if self.dialect.budget is None:
            return find(regex, text)
        with self.dialect.budget.use(self.place):
            return find(regex, text)

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
        """Whether a match holds only the beginning of a number, for example of 0,4193."""
        return any(_is_cut(found, name) for name in self.regex.groupindex)


def _is_cut(found: re.Match[str], name: str) -> bool:
    at = found.end(name)
    return found.string[at : at + 1] in _POINTS and found.string[at + 1 : at + 2].isdigit() and name not in COUNTED


@dataclass(frozen=True)
class Dialect:
    """How the lines of one kind of program are read."""

    name: str
    about: str
    best: str
    """Whether the best evaluation is computed from all, or only taken where a line states it."""
    built_in: bool = False
    patterns: list[Pattern] = field(default_factory=list)
    budget: Budget | None = field(default=None, compare=False)
    """How long its patterns may take, if it is not the kit's own."""


def load(path: Path) -> Dialect:
    """Read a dialect; RequestError with file and line for whatever is wrong with it."""
    return _dialect(yaml_reader.read(path), is_own=path.parent == FOLDER)


def parse(text: str, name: str) -> Dialect:
    """Read the text of a dialect; `name` is only for the messages."""
    return _dialect(yaml_reader.parse(text, name), is_own=False)


def names() -> tuple[str, ...]:
    """Return the names of the dialects that come with the kit."""
    return (*sorted(path.stem for path in FOLDER.glob("*.yaml")), GENERAL, MLPERF, NONE)


def chosen(texts: Mapping[str, str]) -> tuple[Dialect, ...]:
    """Return dialects by name, or by their text if there is one, and what launchers say; MLPerf's events are in all."""
    own = {one.name: one for one in built_in()}
    named = (parse(text, name) if text else own[name] for name, text in texts.items() if text or name in own)
    return (*named, own[LAUNCHERS])


class _Problems(list[str]):
    """What is wrong with a dialect: a line for each problem, with its place."""

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note a problem, and go on behind what it made useless."""
        try:
            yield
        except RequestError as error:
            self.append(str(error))

    def refuse(self, file: str) -> None:
        """Raise RequestError with all problems of a file, if there are any."""
        if self:
            lines = sorted(dict.fromkeys(self), key=lambda problem: int(problem.removeprefix(file).split(":")[1]))
            raise RequestError("\n".join(lines))


def _dialect(document: yaml_reader.Document, *, is_own: bool) -> Dialect:
    values, problems = document.values, _Problems()
    if not isinstance(values, dict):
        document.fail("a dialect has the keys name, about and lines")
    _only_keys(document, values, ("name", "about", "best", "lines"), problems)
    for key in ("name", "about"):
        with problems.noted():
            if not isinstance(values.get(key), str) or not values[key].strip():
                document.fail(f"'{key}' has to be a text", key)
    best = values.get("best", "computed")
    with problems.noted():
        if best not in _BEST:
            document.fail(f"'best' is {' or '.join(_BEST)}", "best")
    lines = values.get("lines")
    with problems.noted():
        if not isinstance(lines, list) or not lines or (len(lines) > MOST_PATTERNS and not is_own):
            document.fail(f"'lines' has to be a list of 1 to {MOST_PATTERNS} patterns", "lines")
    budget = None if is_own else Budget()
    dialect = Dialect(str(values.get("name")), str(values.get("about")), best, is_own, budget=budget)
    for number in range(len(lines) if isinstance(lines, list) and (is_own or len(lines) <= MOST_PATTERNS) else 0):
        with problems.noted():
            dialect.patterns.append(_pattern(document, dialect, number, problems))
    problems.refuse(one_line(document.file))
    return dialect


def _only_keys(
    document: yaml_reader.Document,
    mapping: dict[str, Any],
    known: tuple[str, ...],
    problems: _Problems,
    *place: str | int,
) -> None:
    for key in mapping:
        with problems.noted():
            if key not in known:
                document.fail(f"unknown key '{key}'{did_you_mean(key, known)}", *place, key)


@cache
def built_in() -> tuple[Dialect, ...]:
    """Return the dialects that come with the kit."""
    return (*(load(path) for path in sorted(FOLDER.glob("*.yaml"))), Dialect(GENERAL, _ABOUT, "computed", True))


def _pattern(document: yaml_reader.Document, dialect: Dialect, number: int, problems: _Problems) -> Pattern:
    place = ("lines", number)
    entry = document.values["lines"][number]
    if not isinstance(entry, dict):
        document.fail("a line is read by a pattern with an example", *place)
    _only_keys(document, entry, _KEYS, problems, *place)
    with problems.noted():
        if entry.get("says") not in (None, *SAYS):
            document.fail(f"'says' is one of {', '.join(SAYS)}", *place, "says")
    for key, kind in (("example", str), ("scope", str), ("weak", bool), ("ends", bool)):
        with problems.noted():
            if key in entry and not isinstance(entry[key], kind):
                document.fail(f"'{key}' has to be {'a text' if kind is str else 'true or false'}", *place, key)
    after, sets = None, {}
    with problems.noted():
        after = _compiled(document, entry["after"], *place, "after")[0] if "after" in entry else None
    with problems.noted():
        sets = _sets(document, entry, place)
    regex, literals = _compiled(document, entry.get("pattern"), *place, "pattern")
    for name in regex.groupindex:
        with problems.noted():
            if name not in FIELDS:
                document.fail(f"unknown field '{name}'{did_you_mean(name, FIELDS)}", *place, "pattern")
    if not (regex.groupindex or "sets" in entry or entry.get("says")):
        document.fail("it has no named field, as in (?P<epoch>{int}), nor 'says' or 'sets'", *place, "pattern")
    pattern = Pattern(
        dialect,
        regex,
        literals,
        str(entry.get("example", "")),
        _units(document, entry, regex, place, problems),
        entry.get("says"),
        entry.get("scope"),
        entry.get("weak", False),
        after,
        sets,
        f"{one_line(document.file)}:{document.lines.get((*place, 'pattern'), 1)}",
        entry.get("ends", False),
    )
    if not problems:
        _check_example(document, pattern, place)
    return pattern


def _sets(document: yaml_reader.Document, entry: dict[str, Any], place: tuple[str | int, ...]) -> dict[str, Any]:
    sets = entry.get("sets", {})
    if not isinstance(sets, dict) or not all(name in ("backend", "world_size", "nnodes") for name in sets):
        document.fail("'sets' gives backend, world_size or nnodes a value", *place, "sets")
    for name, value in sets.items():
        if name == "backend" and not (isinstance(value, str) and 0 < len(value) <= _LONGEST_WORD):
            document.fail(f"'{name}' has to be a text of at most {_LONGEST_WORD} letters", *place, "sets", name)
        if name != "backend" and whole(value, 1) is None:
            document.fail(f"'{name}' has to be a whole number from 1", *place, "sets", name)
    return dict(sets)


def _compiled(document: yaml_reader.Document, text: Any, *place: str | int) -> tuple[re.Pattern[str], tuple[str, ...]]:
    if not isinstance(text, str):
        document.fail(f"'{place[-1]}' has to be a regular expression", *place)
    try:
        return compile_checked(text)
    except PatternError as error:
        document.fail(f"this pattern cannot be used: {error}", *place)


def _units(
    document: yaml_reader.Document,
    entry: dict[str, Any],
    regex: re.Pattern[str],
    place: tuple[str | int, ...],
    problems: _Problems,
) -> dict[str, str]:
    units = entry.get("units", {})
    if not isinstance(units, dict):
        document.fail("'units' names the unit of a field, as in wall: ms", *place, "units")
    for name, unit in units.items():
        with problems.noted():
            if name not in regex.groupindex:
                document.fail(f"'{name}' is no field of the pattern", *place, "units", name)
            if unit not in UNITS.get(name, ()):
                known = UNITS.get(name, ())
                document.fail(f"{unit!r} is no unit of '{name}'{did_you_mean(unit, known)}", *place, "units", name)
    for name in sorted(NEED_UNITS & regex.groupindex.keys() - units.keys()):
        with problems.noted():
            document.fail(f"'{name}' needs a unit: one of {', '.join(UNITS[name])}", *place, "pattern")
    return dict(units)


def _check_example(document: yaml_reader.Document, pattern: Pattern, place: tuple[str | int, ...]) -> None:
    """Refuse a pattern that does not read its own example, so that a mistake is seen before a log is."""
    if not pattern.example:
        document.fail("it has no 'example': a line that it reads", *place)
    found = pattern.regex.search(origin.split(pattern.example)[1][:LINE])
    if found is None:
        document.fail("the pattern does not match its example", *place, "example")
    values = pattern.fields(found)
    missing = [name for name, text in found.groupdict().items() if text is not None and name not in values]
    if missing:
        document.fail(f"'{missing[0]}' of the example is no value", *place, "example")
