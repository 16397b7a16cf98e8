"""What processes print -> events and broken event lines.

Event lines follow MLPerf logging (mlcommons/logging, `mllog`): `:::MLLOG {json}` with the keys namespace, time_ms,
event_type, key, value and metadata. As in that project's parser, text before the token is another program's
prefix and is ignored, and so are all other lines. A line that begins right and breaks is returned with its place.
"""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

TOKEN = b":::MLLOG "
LONGEST_KEPT = 200
BLOCK_BYTES = 65_536
LONGEST_LINE = BLOCK_BYTES
"""Bytes that are read of each line; those of the kit's own programs have at most 4,096."""


class Event(msgspec.Struct, gc=False):
    """One event: when (ms since 1970), what, its value, and the fields of its metadata (`rank`, `seq`, ...).

    Value and metadata hold any JSON: check figures with `core.values` where they are used.
    """

    time_ms: float
    key: str
    value: Any = None
    metadata: dict[str, Any] = {}


class Malformed(NamedTuple):
    """A line that begins as an event and is none: its number from 1, why, and its beginning."""

    line: int
    reason: str
    text: str


class Block(NamedTuple):
    """The events and the broken event lines of some lines."""

    events: list[Event]
    malformed: list[Malformed]


_decode = msgspec.json.Decoder(Event).decode
_NO_EVENT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_payload = re.compile(re.escape(TOKEN) + rb"(.*)")


def parse_event(line: bytes) -> Event | None:
    """Parse one line; None if it is no event."""
    match = _payload.search(line) if len(line) <= LONGEST_LINE else None
    try:
        return _decode(match[1]) if match else None
    except _NO_EVENT:
        return None


def read_events(file: BinaryIO) -> Iterator[Block]:
    """Yield what a process printed, block by block; memory stays bounded whatever is in the file.

    The end of a line that is too long is skipped; if it is an event, its beginning is malformed.
    """
    number = 1
    while data := file.read(BLOCK_BYTES):
        data += file.readline(LONGEST_LINE)
        yield _parse(data, number)
        number += data.count(b"\n")
        while not data.endswith(b"\n") and (data := file.readline(BLOCK_BYTES)):
            number += data.endswith(b"\n")


def _parse(data: bytes, number: int) -> Block:
    """Decode the event lines of a block; a broken one costs little more than itself."""
    events: list[Event] = []
    malformed: list[Malformed] = []
    counted = 0
    for match in _payload.finditer(data):
        try:
            events.append(_decode(match[1]))
        except _NO_EVENT as error:
            start = data.rfind(b"\n", 0, match.start()) + 1
            number += data.count(b"\n", counted, start)
            counted = start
            text = data[start : match.end()][:LONGEST_KEPT].decode("utf-8", "replace")
            malformed.append(Malformed(number, str(error), text))
    return Block(events, malformed)
