"""Read YAML 1.2 into plain values and their line numbers, with limits on size and depth.

Aliases, tags, duplicate keys and files of several documents are refused.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from runner.core.errors import RequestError, did_you_mean, reason_of
from runner.core.text import one_line
from trainkit import files

LARGEST_BYTES = 200_000
MOST_VALUES = 12_000
"""The most keys, items and mappings in one file. Reading takes about 0.1 ms for each of them."""
LONGEST_NUMBER = 400
DEEPEST = 20
_PLAIN_TAGS = ("null", "bool", "int", "float", "str", "seq", "map")
_Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """The values of a YAML file and their line numbers from 1, for example `lines["matrix", "layout", 1]`."""

    file: str
    values: Any
    lines: dict[_Path, int]

    def fail(self, message: str, *path: str | int) -> NoReturn:
        """Raise RequestError with the line of a value, or of the innermost value around it whose line is known."""
        while path and path not in self.lines:
            path = path[:-1]
        raise RequestError(f"{one_line(self.file)}:{self.lines.get(path, 1)}: {one_line(message)}")

    def only_keys(self, known: Iterable[str], *path: str | int) -> None:
        """Raise RequestError for the first unknown key of the mapping at `path`."""
        known = tuple(known)
        mapping = self.values
        for step in path:
            mapping = mapping[step]
        for key in mapping:
            if key not in known:
                self.fail(f"unknown key '{key}'{did_you_mean(key, known)}", *path, key)


def read(path: Path) -> Document:
    """Read one YAML file. Raises RequestError, with the line, for any mistake in the file."""
    name = one_line(path)
    try:
        raw = files.read_file(path, LARGEST_BYTES)
    except (OSError, ValueError) as error:
        raise RequestError(f"{name}: cannot be read: {reason_of(error)}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(f"{name}:{raw[: error.start].count(10) + 1}: not UTF-8; save the file as UTF-8") from None
    return parse(text, str(path))


def parse(text: str, file: str) -> Document:
    """Parse the text of a YAML file. Raises RequestError, with the file's name, for any mistake in the text."""
    if len(text) > LARGEST_BYTES:
        Document(file, None, {}).fail(f"more than {LARGEST_BYTES:,} characters")
    lines: dict[_Path, int] = {}
    try:
        values = _Builder(text, file, lines).document()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        Document(file, None, {(): mark.line + 1 if mark else 1}).fail(f"not YAML: {error.problem or error.context}")
    except (YAMLError, ValueError, RecursionError) as error:
        Document(file, None, {}).fail(f"not YAML: {str(error).splitlines()[0] if str(error) else 'nested too deep'}")
    return Document(file, values, lines)


def scalar(text: str) -> Any:
    """Parse one word of a command line as YAML 1.2: `3`, `1e-3`, `true`, `no` (a string)."""
    try:
        return parse(text, "value").values if text.strip() else text
    except RequestError:
        return text


class _Builder:
    def __init__(self, text: str, file: str, lines: dict[_Path, int]) -> None:
        reader = YAML(typ="safe", pure=True)
        reader.version = (1, 2)
        self._events = self._bounded(reader.parse(text))
        self._resolver, self._constructor = reader.resolver, reader.constructor
        self._file, self._lines = file, lines

    def document(self) -> Any:
        """Return the values of the text's only document, or None if the text is empty."""
        values = None
        documents = 0
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._fail(event, "not YAML: a second document begins")
                values = self._value(next(self._events), ())
        return values

    def _bounded(self, events: Iterator[Event]) -> Iterator[Event]:
        """Yield the events, before values are built from them. Raises RequestError if the text is not acceptable.

        Text is refused if it is too large or too deep, has aliases, or states a version other than 1.2.
        """
        depth = values = 0
        for event in events:
            depth += isinstance(event, MappingStartEvent | SequenceStartEvent)
            depth -= isinstance(event, MappingEndEvent | SequenceEndEvent)
            values += isinstance(event, ScalarEvent | MappingStartEvent | SequenceStartEvent)
            if depth > DEEPEST:
                self._fail(event, "nested too deep")
            if values > MOST_VALUES:
                self._fail(event, f"more than {MOST_VALUES:,} keys and values")
            if isinstance(event, AliasEvent):
                self._fail(event, "aliases are refused: write the value out")
            if getattr(event, "version", None) not in (None, (1, 2)):
                self._fail(None, "only YAML 1.2 is supported")
            yield event

    def _value(self, event: Any, path: _Path) -> Any:
        self._lines.setdefault(path, event.start_mark.line + 1)
        kind = MappingNode if isinstance(event, MappingStartEvent) else SequenceNode
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        self._check_tag(event, self._tag(kind, event, None))
        if kind is MappingNode:
            return self._mapping(path)
        items: list[Any] = []
        for item in self._events:
            if isinstance(item, SequenceEndEvent):
                break
            items.append(self._value(item, (*path, len(items))))
        return items

    def _mapping(self, path: _Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for event in self._events:
            if isinstance(event, MappingEndEvent):
                break
            if not isinstance(event, ScalarEvent):
                self._fail(event, "a key has to be a word")
            key = event.value
            place = (*path, key)
            if key in mapping:
                self._fail(event, f"duplicate key '{key}', first in line {self._lines[place]}")
            self._lines[place] = event.start_mark.line + 1
            mapping[key] = self._value(next(self._events), place)
        return mapping

    def _scalar(self, event: ScalarEvent) -> Any:
        tag = self._tag(ScalarNode, event, event.value)
        kind = self._check_tag(event, tag)
        if kind == "str":
            if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in event.value):
                self._fail(event, f"{event.value!r} cannot be passed on a command line")
            return event.value
        if kind in ("int", "float") and len(event.value) > LONGEST_NUMBER:
            self._fail(event, f"not YAML: a number of {len(event.value):,} letters")
        try:
            return self._constructor.construct_object(ScalarNode(tag, event.value))
        except (YAMLError, ValueError, LookupError) as error:
            self._fail(event, f"not YAML: {event.value[:40]!r} is not a {kind}: {str(error)[:80]}")

    def _tag(self, kind: type, event: Any, value: str | None) -> Any:
        tag = event.ctag if hasattr(event, "ctag") else event.tag
        if tag is not None and str(tag) not in ("None", "!"):
            return tag
        return self._resolver.resolve(kind, value, event.implicit)

    def _check_tag(self, event: Any, tag: Any) -> str:
        kind = str(tag).rpartition(":")[2]
        if kind not in _PLAIN_TAGS:
            self._fail(event, f"{tag} is not a plain value" + ("; quote it" if kind == "timestamp" else ""))
        return kind

    def _fail(self, event: Event | None, message: str) -> NoReturn:
        Document(self._file, None, {(): event.start_mark.line + 1 if event else 1}).fail(message)
