"""A pod's log, each line once, over any number of connections.

The kubelet puts the time of every line before it, in nanoseconds and in its own time zone. `sinceTime` goes by whole
seconds, and a connection that is lost may end within a line. So the next one asks for everything since some seconds
before the latest line (a clock may be set back a little), and the stamps that have been seen since then, in their
order, show what is sent again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")
_BACK = timedelta(seconds=5)
LONGEST_HELD = 65_536
"""Bytes of a line that has no end yet; a longer one is passed on in pieces."""


class PodLog:
    """What has been read of a log so far."""

    def __init__(self) -> None:
        self._first: datetime | None = None
        """What the next connection asks for."""
        self._seen: list[tuple[datetime, bytes]] = []
        """The stamps since then, in order, each with its second."""
        self._again: list[bytes] = []
        """Those of them that this connection has yet to send again."""
        self._rest = b""
        """The beginning of a line, nothing of which was passed on."""
        self._line: _Line | None = None
        """A long line, the beginning of which was taken from `_rest`."""
        self._broken: _Line | None = None
        """A long line within which a connection was lost."""

    @property
    def since(self) -> str | None:
        """What the next connection asks for as `sinceTime`; None at the beginning."""
        return self._first.isoformat() if self._first else None

    def connected(self) -> None:
        """Begin a connection: the line within which the one before was lost is sent again."""
        if self._line and self._line.is_new:
            self._broken = self._line
        self._rest, self._line = b"", None
        self._again = [stamp for _, stamp in self._seen]

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what is new, without stamps: whole lines with their newlines, and long ones in pieces."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = b""
        for line in lines:
            yield from self._take(line)
            yield from self._end_line()
        if self._line or len(rest) > LONGEST_HELD:
            yield from self._take(rest)
        else:
            self._rest = rest

    def finish(self) -> Iterator[bytes]:
        """Yield what the container printed last, if it ended without a newline."""
        rest, self._rest = self._rest, b""
        if rest:
            yield from self._take(rest)
        if self._line:
            yield from self._end_line()

    def _take(self, part: bytes) -> Iterator[bytes]:
        """Take a part of a line, the first of which has the stamp."""
        if self._line is None:
            stamp, _, part = part.partition(b" ")
            self._line = self._begin(stamp)
            if self._line.is_new and self._broken:
                if self._broken.stamp == stamp:
                    self._line.passed = self._broken.passed
                else:  # it was rotated away meanwhile
                    yield b"\n"
                self._broken = None
        if self._line.is_new:
            yield self._line.fresh(part)

    def _end_line(self) -> Iterator[bytes]:
        if self._line and self._line.is_new and self._line.second:
            self._remember(self._line.second, self._line.stamp)
            yield b"\n"
        self._line = None

    def _begin(self, stamp: bytes) -> _Line:
        found = _STAMP.fullmatch(stamp)
        if not found:  # not written by the kubelet: a proxy or the API server reports its own trouble
            return _Line(stamp, None, is_new=False)
        if stamp in self._again:
            del self._again[: self._again.index(stamp) + 1]
            return _Line(stamp, None, is_new=False)
        second = datetime.fromisoformat((found[1] + found[2].replace(b"Z", b"+00:00")).decode("ascii"))
        return _Line(stamp, second, is_new=True)

    def _remember(self, second: datetime, stamp: bytes) -> None:
        if self._first is None or second - _BACK > self._first:
            self._first = second - _BACK
            self._seen = [one for one in self._seen if one[0] >= self._first]
        if second >= self._first:
            self._seen.append((second, stamp))


class _Line:
    """A line that is being read."""

    def __init__(self, stamp: bytes, second: datetime | None, *, is_new: bool) -> None:
        self.stamp, self.second, self.is_new = stamp, second, is_new
        self.passed = 0
        """Bytes of its text that were passed on, over this connection or an earlier one."""
        self._read = 0

    def fresh(self, part: bytes) -> bytes:
        """Take the next part of its text, and return what of it was not passed on before."""
        known = max(0, self.passed - self._read)
        self._read += len(part)
        self.passed = max(self.passed, self._read)
        return part[known:]
