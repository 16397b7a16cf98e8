"""How long the patterns of somebody's dialect may take, all of them together, over a whole log.

Each search is short, because `pattern.py` refuses those that are not; a log has millions of lines.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from runner.core.errors import RequestError

SECONDS = 5.0
"""Processor time for a log of any size."""
SECONDS_PER_BYTE = 1e-7
"""Processor time for each byte of a log; all dialects of the kit together take about a tenth of it."""


@dataclass
class Budget:
    """The processor time that a dialect has taken, and may take."""

    seconds: float = 0.0
    """What is left."""
    _used: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        """Begin a log."""
        self.seconds = SECONDS
        self._used.clear()

    def add_bytes(self, count: int) -> None:
        """Allow the time for some more bytes."""
        self.seconds += count * SECONDS_PER_BYTE

    @contextmanager
    def use(self, place: str) -> Iterator[None]:
        """Count what a search takes; RequestError once all is spent, with the place of the pattern that took most."""
        begun = time.thread_time()
        yield
        taken = time.thread_time() - begun
        self.seconds -= taken
        self._used[place] += taken  # type: ignore[assignment]
        if self.seconds < 0:
            (slowest, most), *_ = self._used.most_common(1)
            raise RequestError(
                f"{slowest}: this pattern took {most:.1f} s of a log, and all of its dialect more than they may: "
                "bound its repeats, as in .{0,40}, or begin it with ^"
            )
