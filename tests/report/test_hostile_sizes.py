"""Event lines of any length and number are read within fixed limits of memory."""

import io
import tracemalloc
from typing import Any

import pytest

from runner.records.events import read_events


class Endless(io.RawIOBase):
    """A file of one byte, very often, between a beginning and an end."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = iter(parts)
        self.rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.rest = self.rest or next(self.parts, b"")
        taken = self.rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self.rest = self.rest[len(taken) :]
        return len(taken)


@pytest.mark.parametrize("start", [b"", b':::MLLOG {"time_ms": 1, "key": "'], ids=["foreign", "event"])
def test_a_line_of_hundreds_of_megabytes_is_dropped_and_said_in_bounded_memory(start: bytes) -> None:
    end = b'\n:::MLLOG {"time_ms": 1, "key": "last"}\n:::MLLOG {torn\n'
    tracemalloc.start()
    blocks = list(read_events(io.BufferedReader(Endless(start + b"x", *[b"x" * 65_536] * 3_000, end))))
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    assert [event.key for block in blocks for event in block.events] == ["last"]
    broken = [(line.line, line.reason) for block in blocks for line in block.malformed]
    assert broken[-1][0] == 3
    assert len(broken) == (2 if start else 1)
