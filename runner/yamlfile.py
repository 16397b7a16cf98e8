"""YAML text -> plain values and the line of each, by the rules of YAML 1.2.

A definition is data: aliases, tags and several documents in one file are refused, and so is a key that stands twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from runner.errors import RequestError, did_you_mean, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ruamel.yaml.nodes import Node

LARGEST_BYTES = 1_000_000
DEEPEST = 20
_PLAIN_TAGS = ("null", "bool", "int", "float", "str", "seq", "map")
_Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """The values of a YAML file, and where each stands: `lines[("matrix", "layout", 1)]` is a line number from 1."""

    file: str
    values: Any
    lines: dict[_Path, int]

    def fail(self, message: str, *path: str | int) -> NoReturn:
        """Raise RequestError at the place of a value, or of the nearest that holds it."""
        while path and path not in self.lines:
            path = path[:-1]
        msg = f"{self.file}:{self.lines.get(path, 1)}: {one_line(message)}"
        raise RequestError(msg)

    def only_keys(self, known: Iterable[str], *path: str | int) -> None:
        """Refuse the first key of the mapping at `path` that is not among the known ones."""
        known = tuple(known)
        mapping = self.values
        for step in path:
            mapping = mapping[step]
        for key in mapping:
            if key not in known:
                self.fail(f"unknown key '{key}'{did_you_mean(key, known)}", *path, key)


def read(path: Path) -> Document:
    """Read one YAML file; RequestError with file:line for whatever is wrong with it."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise RequestError(msg) from None
    if len(raw) > LARGEST_BYTES:
        msg = f"{path}: {len(raw):,} bytes are no definition; the largest is {LARGEST_BYTES:,}"
        raise RequestError(msg)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{path}:{raw[: error.start].count(10) + 1}: not UTF-8; save the file as UTF-8"
        raise RequestError(msg) from None
    return parse(text, str(path))


def parse(text: str, file: str) -> Document:
    """Parse YAML text; `file` is only for the messages."""
    lines: dict[_Path, int] = {}
    depth = 0
    try:
        for event in _reader().parse(text):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > DEEPEST:
                Document(file, None, {(): event.start_mark.line + 1}).fail("nested too deep")
            if getattr(event, "version", None) not in (None, (1, 2)):
                Document(file, None, {}).fail("another version of YAML; definitions follow YAML 1.2")
            if isinstance(event, AliasEvent):
                Document(file, None, {(): event.start_mark.line + 1}).fail("aliases are refused: write the value out")
        node = _reader().compose(text)
        values = _build(node, (), lines, file) if node is not None else None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        Document(file, None, {(): mark.line + 1 if mark else 1}).fail(f"not YAML: {error.problem or error.context}")
    except (YAMLError, ValueError, RecursionError) as error:
        Document(file, None, {}).fail(f"not YAML: {str(error).splitlines()[0] if str(error) else 'nested too deep'}")
    return Document(file, values, lines)


def scalar(text: str) -> Any:
    """Read one word of a command line as YAML 1.2 would: `3`, `1e-3`, `true`, `no` (a string)."""
    try:
        return parse(text, "value").values if text.strip() else text
    except RequestError:
        return text


def _reader() -> YAML:
    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 2)
    return reader


def _build(node: Node, path: _Path, lines: dict[_Path, int], file: str) -> Any:
    """Turn a node into plain values, noting the line of every key and item."""
    here = Document(file, None, {(): node.start_mark.line + 1})
    lines.setdefault(path, node.start_mark.line + 1)
    kind = str(node.tag).rpartition(":")[2]
    if kind not in _PLAIN_TAGS:
        here.fail(f"{node.tag} is no plain value" + ("; quote it" if kind == "timestamp" else ""))
    if isinstance(node, MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = key_node.value, key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode) or not isinstance(key, str):
                Document(file, None, {(): line}).fail("a key has to be a word")
            place = (*path, key)
            if key in mapping:
                Document(file, None, {(): line}).fail(f"duplicate key '{key}', first in line {lines[place]}")
            lines[place] = line
            mapping[key] = _build(value_node, place, lines, file)
        return mapping
    if isinstance(node, SequenceNode):
        return [_build(item, (*path, index), lines, file) for index, item in enumerate(node.value)]
    if kind == "str":
        if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in node.value):
            here.fail(f"{node.value!r} is no text that a command line can carry")
        return node.value
    try:
        return _reader().constructor.construct_object(node)
    except (ValueError, LookupError) as error:
        here.fail(f"not YAML: {node.value[:40]!r} is no {kind}: {str(error)[:80]}")
