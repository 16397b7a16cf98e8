r"""Event lines, in which a program reports on itself as JSON.

The format follows MLPerf logging (https://github.com/mlcommons/logging): a line begins with ``:::MLLOG`` and holds
``namespace``, ``time_ms``, ``event_type``, ``key``, ``value``, ``metadata``. ``metadata`` always has ``rank`` and
``seq``, which numbers a rank's lines from 0, so that lost lines are noticed. CONTRIBUTING.md lists the keys.
"""

import json
import math
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

MARK = ":::MLLOG "
LINE_BYTES = 4096
"""Maximum length of a line: POSIX guarantees that a write of up to this many bytes to a pipe is atomic."""


class Phase:
    """The running clock of one phase.

    `metadata` goes into the phase's stop event, and `at_stop` is called when the clock stops.

    Args:
        synchronise: waits until the device and the other ranks are done.
    """

    def __init__(self, synchronise: Callable[[], None]) -> None:
        self.metadata: dict[str, Any] = {}
        self.at_stop: Callable[[], None] = lambda: None
        self._synchronise = synchronise
        self._seconds: float | None = None
        synchronise()
        self._began = time.monotonic()

    def stop_clock(self) -> float:
        """Stop the clock (once) and return the seconds; later work is not measured."""
        if self._seconds is None:
            self._synchronise()
            self._seconds = time.monotonic() - self._began
            self.at_stop()
        return self._seconds


class EventLog:
    """Writes the events of one rank.

    Args:
        rank: the rank of this process in the run, from 0.
        fd: file descriptor for the lines; 1 is standard output.
        synchronise: called at both ends of every phase, before the clock is read.
    """

    def __init__(self, rank: int = 0, *, fd: int = 1, synchronise: Callable[[], None] = lambda: None) -> None:
        self.rank = rank
        self._fd = fd
        self._seq = 0
        self._silent = False
        self._lock = threading.Lock()
        self._synchronise = synchronise

    def point(self, key: str, value: object = None, /, **metadata: object) -> None:
        """Report a value at one time."""
        self._emit("POINT_IN_TIME", key, value, metadata)

    def start(self, key: str, value: object = None, /, **metadata: object) -> None:
        """Report the start of an interval."""
        self._emit("INTERVAL_START", key, value, metadata)

    def stop(self, key: str, value: object = None, /, **metadata: object) -> None:
        """Report the end of an interval."""
        self._emit("INTERVAL_END", key, value, metadata)

    def fall_silent(self) -> None:
        """Report nothing more."""
        self._silent = True

    @contextmanager
    def phase(self, name: str, /, **metadata: object) -> Iterator[Phase]:
        """Report `<name>_start` and `<name>_stop` around a block, the latter with its `seconds`.

        If the block raises, no stop is reported.
        """
        phase = Phase(self._synchronise)
        self.start(f"{name}_start", **metadata)
        yield phase
        seconds = phase.stop_clock()
        self.stop(f"{name}_stop", **metadata, seconds=seconds, **phase.metadata)

    def _emit(self, event_type: str, key: str, value: object, metadata: dict[str, Any]) -> None:
        if self._silent:
            return
        with self._lock:  # another thread reports the node's utilization
            own = {"rank": self.rank, "seq": self._seq}
            event = {
                "namespace": "",
                "time_ms": int(time.time() * 1000),
                "event_type": event_type,
                "key": key,
                "value": value,
                "metadata": own | metadata | own,
            }
            self._seq += 1
            sys.stdout.flush()  # keep earlier prints before this line
            _write_whole(self._fd, line(event))


def line(event: dict[str, Any]) -> bytes:
    """Return an event as one line of strict JSON, at most LINE_BYTES long.

    A newline comes first, because another process may have left an incomplete line in the pipe. The longest strings are
    shortened, with a mark, until the line fits; then the largest fields are dropped.
    """
    event = _strict(event)
    while True:
        text = json.dumps(event, ensure_ascii=False, allow_nan=False)
        encoded = f"\n{MARK}{text}\n".encode(errors="backslashreplace")
        if len(encoded) <= LINE_BYTES:
            return encoded
        _shorten(event)


def _strict(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return str(value)


def _shorten(event: dict[str, Any]) -> None:
    holder, name = max(_strings(event), key=lambda place: len(place[0][place[1]]))
    text = holder[name]
    shorter = f"{text[: len(text) // 2]}... ({len(text)} characters)"
    if len(shorter) < len(text):
        holder[name] = shorter
        return
    metadata = event["metadata"]
    droppable = [field for field in metadata if field not in {"rank", "seq", "dropped"}]
    if droppable:
        del metadata[max(droppable, key=lambda field: len(json.dumps(metadata[field])))]
        metadata["dropped"] = metadata.get("dropped", 0) + 1
    else:
        event["value"] = None


def _strings(value: Any) -> Iterator[tuple[Any, Any]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for name, item in items:
        if isinstance(item, str):
            yield value, name
        else:
            yield from _strings(item)


def _write_whole(fd: int, data: bytes) -> None:
    """Write all of `data`, in one write unless the reader takes only part of it."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:  # a non-blocking pipe is full
            select.select([], [fd], [])
