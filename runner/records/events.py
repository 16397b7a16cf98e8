"""What processes print -> Events, broken lines, and nothing.

Event lines follow MLPerf logging (mlcommons/logging, `mllog`): `:::MLLOG {json}` with the keys namespace, time_ms,
event_type, key, value and metadata. As in that project's parser, what stands before the token is another program's
prefix and is ignored. Every other line is foreign and is ignored too; a line that begins right and breaks comes back
as a value with its place.
"""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

from runner.core.values import plain

TOKEN = b":::MLLOG "
LONGEST_KEPT = 200
BLOCK_BYTES = 65_536
LONGEST_LINE = BLOCK_BYTES
"""Bytes; a longer line is dropped. Those of the kit's own programs have at most 4,096."""
TOO_LONG = f"longer than {LONGEST_LINE:,} bytes"


class Event(msgspec.Struct, gc=False):
    """One event: when (ms since 1970), what, its value, and the fields of its metadata (`rank`, `seq`, ...).

    Value and metadata hold whatever a program printed: who takes a figure from there checks it with `core.values`.
    """

    time_ms: float
    key: str
    value: Any = None
    metadata: dict[str, Any] = {}
    event_type: str = "POINT_IN_TIME"
    namespace: str = ""


class Malformed(msgspec.Struct, gc=False):
    """A line that begins as an event and is none: its number from 1, why, and its beginning."""

    line: int
    reason: str
    text: str


class Block(NamedTuple):
    """What some lines held: events, broken event lines, and how many foreign lines were too long to look at."""

    events: list[Event]
    malformed: list[Malformed]
    too_long: int


_decode = msgspec.json.Decoder(Event).decode
_NO_EVENT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_payload = re.compile(re.escape(TOKEN) + rb"(.*)")


def parse_checked(line: bytes) -> Event | None:
    """Parse a line that is to be shown while a run lasts: null in place of whatever no figure or text can be."""
    start = line.find(TOKEN)
    if start < 0 or len(line) > LONGEST_LINE:
        return None
    try:
        event = _decode(line[start + len(TOKEN) :])
    except _NO_EVENT:
        return None
    event.value, event.metadata = plain(event.value), plain(event.metadata) or {}
    return event


def read_events(file: BinaryIO) -> Iterator[Block]:
    """Yield everything that a process printed, block by block; memory stays bounded whatever is in the file."""
    number = 1
    for text, too_long in _whole_lines(file):
        if too_long:
            begun = TOKEN in text
            yield Block([], [_malformed(number, TOO_LONG, text)] if begun else [], 0 if begun else 1)
            number += 1
            continue
        yield _parse(text, number)
        number += text.count(b"\n")


def _whole_lines(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield whole lines, many at a time, and the beginning of each line that is too long (with True)."""
    while data := file.read(BLOCK_BYTES):
        begun = data.rfind(b"\n") + 1
        last = data[begun:] + file.readline(LONGEST_LINE + 1)
        if len(last) - last.endswith(b"\n") <= LONGEST_LINE:
            yield data[:begun] + last, False
            continue
        if begun:
            yield data[:begun], False
        yield last[:LONGEST_LINE], True
        while last and not last.endswith(b"\n"):
            last = file.readline(BLOCK_BYTES)


def _parse(data: bytes, number: int) -> Block:
    """Decode the event lines of a block; a broken one costs little more than itself."""
    events: list[Event] = []
    malformed: list[Malformed] = []
    counted = 0
    for found in _payload.finditer(data):
        try:
            events.append(_decode(found[1]))
        except _NO_EVENT as error:
            start = data.rfind(b"\n", 0, found.start()) + 1
            number += data.count(b"\n", counted, start)
            counted = start
            malformed.append(_malformed(number, str(error), data[start : found.end()]))
    return Block(events, malformed, 0)


def _malformed(number: int, reason: str, line: bytes) -> Malformed:
    return Malformed(number, reason, line[:LONGEST_KEPT].decode("utf-8", "replace"))
