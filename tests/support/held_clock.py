"""Replace the runner's clock by one that moves only on request, and at once."""

import time
from threading import Lock

from runner.core import clock

TURN_SECONDS = 0.001
"""Length of a real sleep, which lets other threads run."""

HELD_CLOCK = """
    import time
    slept = [time.time()]
    time.time = time.monotonic = time.perf_counter = lambda: slept[0]
    time.sleep = lambda seconds: slept.__setitem__(0, slept[0] + seconds)
"""
"""First lines of a script whose clock moves only when the script sleeps, and at once."""


class HeldClock:
    """A clock that moves when the test advances it or the runner sleeps, without real time."""

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
