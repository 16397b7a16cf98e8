"""A pod's log, each line once, over any number of connections.

The kubelet puts the time of every line before it, in nanoseconds and in its own time zone. `sinceTime` goes by whole
seconds, and a connection that is lost may end within a line. So the next one asks for everything since some seconds
before the latest line (a clock may be set back a little), and the stamps that have been seen since then, in their
order, tell what is said again.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")
_BACK = timedelta(seconds=5)


class PodLog:
    """What has been read of a log so far."""

    def __init__(self) -> None:
        self._first: datetime | None = None
        """What the next connection asks for."""
        self._seen: list[tuple[datetime, bytes]] = []
        """The stamps since then, in order, each with its second."""
        self._again: list[bytes] = []
        """Those of them that this connection has yet to say again."""
        self._rest = b""

    @property
    def since(self) -> str | None:
        """What the next connection asks for as `sinceTime`; None at the beginning."""
        return self._first.isoformat() if self._first else None

    def connected(self) -> None:
        """Begin a connection: half a line that the one before left is said again."""
        self._rest = b""
        self._again = [stamp for _, stamp in self._seen]

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that are new and whole, each without its stamp and newline."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield from self._take(line)

    def finish(self) -> Iterator[bytes]:
        """Yield what the container printed last, where it ended without a newline."""
        rest, self._rest = self._rest, b""
        if rest:
            yield from self._take(rest)

    def _take(self, line: bytes) -> Iterator[bytes]:
        stamp, _, text = line.partition(b" ")
        found = _STAMP.fullmatch(stamp)
        if not found:  # no kubelet's line: what a proxy or the API server says of its own trouble
            return
        if stamp in self._again:
            del self._again[: self._again.index(stamp) + 1]
            return
        second = datetime.fromisoformat((found[1] + found[2].replace(b"Z", b"+00:00")).decode("ascii"))
        if self._first is None or second - _BACK > self._first:
            self._first = second - _BACK
            self._seen = [one for one in self._seen if one[0] >= self._first]
        if second >= self._first:
            self._seen.append((second, stamp))
        yield text
