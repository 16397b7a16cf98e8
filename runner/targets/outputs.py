"""The output of containers that somebody else started: several logs with time stamps, merged into one."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

MOST = 512
"""Containers that are read at the same time: each takes a connection."""
LONGEST_PIECE = 65_536
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_Moment = tuple[float, bytes]
"""Seconds since 1970, and the nine digits behind them."""
_FIRST: _Moment = (0.0, b"")


@dataclass(frozen=True)
class Output:
    """What one container printed until now; each line has the engine's time stamp before it."""

    prefix: str
    """What names the container in the merged log, as the command line of its engine writes it."""
    chunks: Iterable[bytes]
    """Bytes as they come, read only once."""
    exit_code: int | None
    """None if it still runs, or has not been started."""


def merged(outputs: list[Output]) -> Iterator[bytes]:
    """Yield the lines of all containers in the order of their time stamps, each with its container's prefix."""
    streams = [_lines(one, number) for number, one in enumerate(outputs)]
    for _, _, line in heapq.merge(*streams, key=lambda one: one[:2]):
        yield line


def _lines(output: Output, number: int) -> Iterator[tuple[_Moment, int, bytes]]:
    """Yield (stamp, number of the container, line); a very long line comes in pieces, one after the other."""
    prefix, stamp, begins = output.prefix.encode(), _FIRST, True
    for line in _pieces(output.chunks):
        if begins and (found := _moment(line)):
            stamp = found
        yield stamp, number, (prefix if begins else b"") + line
        begins = line.endswith(b"\n")
    if not begins:
        yield stamp, number, b"\n"


def _moment(line: bytes) -> _Moment | None:
    """Read the time stamp of a line; every machine writes it in its own time zone."""
    found = _STAMP.match(line)
    if not found:
        return None
    try:
        second = datetime.fromisoformat((found[1] + found[3].replace(b"Z", b"+00:00")).decode("ascii"))
    except ValueError:
        return None
    return second.timestamp(), (found[2] or b"").ljust(9, b"0")


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
        if len(rest) > LONGEST_PIECE:
            yield rest
            rest = b""
    if rest:
        yield rest
