"""Line -> Event, Malformed, or nothing.

Event lines follow MLPerf logging (mlcommons/logging, `mllog`): `:::MLLOG {json}` with the keys namespace, time_ms,
event_type, key, value and metadata. As in that project's parser, what stands before the token is another program's
prefix and is passed over. Every other line is foreign and is ignored here; a line that begins right and breaks comes
back as a value with its place.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

TOKEN = b":::MLLOG "
LONGEST_KEPT = 200
BLOCK_BYTES = 65_536


class Event(msgspec.Struct, gc=False):
    """One event: when (ms since 1970), what, its value, and the fields of its metadata (`rank`, `seq`, ...)."""

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


_decoder = msgspec.json.Decoder(Event)
_block_decoder = msgspec.json.Decoder(list[Event])
_payload = re.compile(re.escape(TOKEN) + rb"(.*)")


def parse_line(line: bytes, number: int = 1) -> Event | Malformed | None:
    """Parse one line without its newline."""
    start = line.find(TOKEN)
    if start < 0:
        return None
    try:
        return _decoder.decode(line[start + len(TOKEN) :])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Malformed(number, str(error), line[:LONGEST_KEPT].decode("utf-8", "replace"))


def parse(data: bytes) -> tuple[list[Event], list[Malformed]]:
    """Parse everything that a process printed, in order.

    Block by block (so that it stays in the processor's cache) the event lines are decoded as one JSON list, which is
    several times as fast as one by one; where that fails some line is broken, and each of the block is looked at alone.
    """
    events: list[Event] = []
    broken: list[Malformed] = []
    start, counted, line_number = 0, 0, 1
    while start < len(data):
        end = data.find(b"\n", start + BLOCK_BYTES) + 1 or len(data)
        payloads = _payload.findall(data, start, end)
        try:
            block = _block_decoder.decode(b"[" + b",".join(payloads) + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            block = None
        if block is not None and len(block) == len(payloads):
            events += block
        else:
            line_number += data.count(b"\n", counted, start)
            counted = start
            for number, line in enumerate(data[start:end].split(b"\n"), line_number):
                parsed = parse_line(line, number)
                if isinstance(parsed, Event):
                    events.append(parsed)
                elif parsed is not None:
                    broken.append(parsed)
        start = end
    return events, broken
