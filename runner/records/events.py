"""Parse the output of processes into events and malformed event lines.

Event lines follow MLPerf logging (mlcommons/logging, `mllog`): `:::MLLOG {json}` with the keys namespace, time_ms,
event_type, key, value and metadata. Like MLPerf's parser, this module ignores all other lines and any text before
`:::MLLOG`.
"""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

TOKEN = b":::MLLOG "
LONGEST_KEPT = 200
BLOCK_BYTES = 65_536
LONGEST_LINE = BLOCK_BYTES
"""Maximum bytes of an event line. The kit's own programs print at most 4,096."""


class Event(msgspec.Struct, gc=False):
    """Event of a rank: `time_ms` is Unix time, and `metadata` holds `rank`, `seq` and further fields.

    `value` and `metadata` may hold any JSON, so check figures with `core.values`.
    """

    time_ms: float
    key: str
    value: Any = None
    metadata: dict[str, Any] = {}


class Malformed(NamedTuple):
    """Event line that cannot be decoded: the line's number (from 1), the reason, and the beginning of the line."""

    line: int
    reason: str
    text: str


class Block(NamedTuple):
    """Events and malformed event lines of a block of output."""

    events: list[Event]
    malformed: list[Malformed]


_decode = msgspec.json.Decoder(Event).decode
_NO_EVENT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_payload = re.compile(re.escape(TOKEN) + rb"(.*)")


def parse_event(line: bytes) -> Event | None:
    """Parse one line; None if it is not an event."""
    match = _payload.search(line) if len(line) <= LONGEST_LINE else None
    try:
        return _decode(match[1]) if match else None
    except _NO_EVENT:
        return None


def read_events(file: BinaryIO) -> Iterator[Block]:
    """Yield the events of a process's output in blocks, in bounded memory.

    An event line that is too long counts as malformed.
    """
    number = 1
    while data := file.read(BLOCK_BYTES):
        data += file.readline(LONGEST_LINE)
        yield _parse(data, number)
        number += data.count(b"\n")
        while not data.endswith(b"\n") and (data := file.readline(BLOCK_BYTES)):
            number += data.endswith(b"\n")


def _parse(data: bytes, number: int) -> Block:
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
