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
"""Bytes; a longer line is dropped. Those of the kit's own programs have at most 4,096."""
TOO_LONG = f"longer than {LONGEST_LINE:,} bytes"


class Event(msgspec.Struct, gc=False):
    """One event: when (ms since 1970), what, its value, and the fields of its metadata (`rank`, `seq`, ...).

    Value and metadata hold any JSON: check figures with `core.values` where they are used.
    """

    time_ms: float
    key: str
    value: Any = None
    metadata: dict[str, Any] = {}
    event_type: str = "POINT_IN_TIME"
    namespace: str = ""


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
    found = _payload.search(line) if len(line) <= LONGEST_LINE else None
    try:
        return _decode(found[1]) if found else None
    except _NO_EVENT:
        return None


def read_events(file: BinaryIO) -> Iterator[Block]:
    """Yield what a process printed, block by block; memory stays bounded whatever is in the file.

    Foreign lines that are too long are skipped.
    """
    number = 1
    for text, too_long in _whole_lines(file):
        if too_long:
            yield Block([], [_malformed(number, TOO_LONG, text)] if TOKEN in text else [])
            number += 1
        else:
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
    return Block(events, malformed)


def _malformed(number: int, reason: str, line: bytes) -> Malformed:
    return Malformed(number, reason, line[:LONGEST_KEPT].decode("utf-8", "replace"))
