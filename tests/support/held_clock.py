"""A clock in place of the runner's, which a test holds: seconds pass at once, and only when somebody says so."""

import time
from threading import Lock

from runner.core import clock

TURN_SECONDS = 0.001
"""So long a sleep leaves the processor to other threads, which may be what is waited for."""

HELD_CLOCK = """
    import time
    slept = [time.time()]
    time.time = time.monotonic = time.perf_counter = lambda: slept[0]
    time.sleep = lambda seconds: slept.__setitem__(0, slept[0] + seconds)
"""
"""The first lines of a script of the tests: a clock that only its own sleeping moves, and at once."""


class HeldClock:
    """A clock that moves when the test advances it, and when the runner sleeps, which takes no time."""

    def __init__(self) -> None:
        self._monotonic, self._now, self._moving = clock.monotonic(), clock.now(), Lock()

    def monotonic(self) -> float:
        return self._monotonic

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        time.sleep(TURN_SECONDS)

    def advance(self, seconds: float) -> None:
        with self._moving:
            self._monotonic += seconds
            self._now += seconds
