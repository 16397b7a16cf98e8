"""The times of steps, and when they became steady."""

from __future__ import annotations

from array import array

FIRST_STEPS = 500
"""Number of first steps whose cumulative totals are kept; the warm-up must end among them."""
MOST_INTERVALS = 4_096
"""If there are more intervals, every second one is dropped, repeatedly."""
WINDOW = 5
NEAR = 1.25
FEWEST_STEPS = 9


class Steps:
    """The ends of steps: the intervals between them, and the totals at the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self.first_end = self.last_end = 0.0
        self.marks: list[array[float]] = []
        self.intervals = array("d")
        self.stride = 1

    def end(self, now: float, done: tuple[float, ...], is_interrupted: bool) -> None:
        """Record the end of a step; steps interrupted by an evaluation are excluded from the statistics."""
        if not self.count:
            self.first_end = now
        elif (self.count - 1) % self.stride == 0:
            self.intervals.append(-1.0 if is_interrupted else now - self.last_end)
            if len(self.intervals) >= MOST_INTERVALS:
                self.intervals = self.intervals[::2]
                self.stride *= 2
        if self.count < FIRST_STEPS:
            self.marks.append(array("d", (now, *done)))
        self.last_end = now
        self.count += 1

    def warmup(self) -> int | None:
        """Return the number of steps before step times were steady; None if there are too few to tell."""
        ends = [mark[0] for mark in self.marks]
        if self.count < FEWEST_STEPS or not (later := _sorted(self.intervals[len(self.intervals) // 2 :])):
            return None
        most = NEAR * later[len(later) // 2]
        for begin in range(len(ends) - WINDOW):
            window = sorted(ends[at + 1] - ends[at] for at in range(begin, begin + WINDOW))
            if window[WINDOW // 2] <= most:
                return begin + 1
        return None

    def quantiles(self, warmup: int) -> dict[str, float] | None:
        """Return the 10th, 50th and 90th percentile of step times after the warm-up, in seconds."""
        found = _sorted(self.intervals[-(-(warmup - 1) // self.stride) :])
        at = {name: int(part * (len(found) - 1) + 0.5) for name, part in (("p10", 0.1), ("median", 0.5), ("p90", 0.9))}
        return {name: found[place] for name, place in at.items()} if found else None


def _sorted(intervals: array[float]) -> list[float]:
    return sorted(interval for interval in intervals if interval >= 0)
