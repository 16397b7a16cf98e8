"""One node of a run as every target follows it, and how its launcher ended."""

import signal
import threading
from collections import deque
from contextlib import suppress

from runner.records.schema import NodeExit
from runner.targets.node_view import NodeView

SIGNALLED = 128
"""What the init of a container adds to the number of a signal that ended its process."""


class FollowedNode:
    """The launcher of one node, from before its start to its end; `begin` follows it in a thread of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.stopped = False
        """Whether this runner has told it to end."""
        self.failure: OSError | None = None
        """Why its output can no longer be kept, for example because the disk is full."""
        self.notes: deque[str] = deque()
        self._exit: NodeExit | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_begun(self) -> bool:
        """Whether it was started."""
        return self._thread is not None

    @property
    def exit(self) -> NodeExit | None:
        """How it ended; None until it has, and all that it printed is kept."""
        return self._exit

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.exit is not None

    @property
    def failed(self) -> bool:
        """Whether it has ended with anything but exit code 0."""
        return self.exit is not None and self.exit.code != 0

    def begin(self) -> None:
        """Follow it until it has ended."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def follow(self) -> NodeExit:
        """Keep what it prints, and return how it ended; called in the thread."""
        raise NotImplementedError

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most so long."""
        if self.is_begun:
            self._over.wait(seconds)  # an interrupted join would take the thread for ended (CPython, bpo-45274)

    def describe(self) -> NodeExit:
        """Return how it ended; what was never started, or has not ended, has neither a code nor a signal."""
        return self.exit or NodeExit(self.number, stopped=True)

    def idle(self) -> NodeView | None:
        """Return why nothing runs on the node, if that is known."""
        return None

    def look(self, *, abort: bool) -> NodeView:
        """Look at the node's processes, as `Handle.look` does at all."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self._exit = self.follow()
        finally:
            self._over.set()


def exit_of(code: object, signalled: int = 0) -> tuple[int | None, str | None]:
    """Read an exit code: (code, None), or (None, signal).

    The code is that of `subprocess`, -N for signal N; or a container's, to which its init adds `signalled`.
    """
    if not isinstance(code, int):
        return None, None
    with suppress(ValueError):
        return None, signal.Signals(code - signalled if signalled else -code).name
    return code if code >= 0 else None, None
