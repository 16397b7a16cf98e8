"""The frames that the two ends of a connection exchange: a line of JSON, and as many bytes as its `bytes` says.

This and the other modules `host_*` are of the standard library alone and run on a host as they are (`on_host`).
"""

import contextlib
import json
import os
import queue
import sys
import threading
from typing import Any

Frame = dict[str, Any]
IDLE_SECONDS = 30
"""A process of a host that has heard nothing for so long ends: nobody is there any more."""
_LARGEST_HEAD = 8_000_000


class Requests:
    """The frames of stdin, read by a thread, so that none is waited for while a run is followed."""

    def __init__(self) -> None:
        self.frames: Any = queue.Queue(16)
        threading.Thread(target=self._read, daemon=True).start()

    def next(self, *, wait: bool = True) -> Any:
        """Return the next frame with its bytes; (None, b"") at the end of stdin, None if there is none yet."""
        try:
            return self.frames.get(block=wait)
        except queue.Empty:
            return None

    def _read(self) -> None:
        source = sys.stdin.buffer
        with contextlib.suppress(OSError, ValueError):
            while line := source.readline(_LARGEST_HEAD):
                frame = json.loads(line.decode("utf-8"))
                self.frames.put((frame, source.read(frame.get("bytes", 0))))
        self.frames.put((None, b""))


def send(frame: Frame, data: bytes = b"") -> None:
    """Write one frame."""
    if data:
        frame = dict(frame, bytes=len(data))
    whole = json.dumps(frame).encode() + b"\n" + data
    while whole:
        whole = whole[os.write(1, whole) :]
