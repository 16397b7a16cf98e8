"""How long the sum of some bytes over all ranks takes: measured for each size, or from latency and bandwidth.

A ring of n ranks passes 2 (n - 1) messages one after the other, each with a share 1/n of the bytes, over the slowest
link (P. Patarasuk and X. Yuan, J. Parallel Distrib. Comput. 69, 2009; R. Thakur et al., Int. J. High Perform. Comput.
Appl. 19, 2005). So does Gloo (gloo/allreduce.cc, `ring`, the default), and NCCL's bus bandwidth is defined by it
(nccl-tests, doc/PERFORMANCE.md). Where sums were measured, they say more than single messages.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple


class Cost(NamedTuple):
    """Seconds of one exchange: what does not grow with the bytes, what does, and the CPU time of a rank in it."""

    latency: float
    transfer: float
    processor: float

    @property
    def seconds(self) -> float:
        """How long it lasts, if nothing else happens."""
        return self.latency + self.transfer


class Point(NamedTuple):
    """A measured sum: bytes, seconds on the slowest rank, and its CPU seconds."""

    size: float
    seconds: float
    processor: float


@dataclass(frozen=True)
class Network:
    """What carries the messages of a layout.

    Attributes:
        ranks: how many took part in what was measured.
        points: measured sums, by size; none if only single messages are known.
        latency: seconds of a small message, one way.
        bandwidth: bytes per second of one link.
        assumed: whether latency and bandwidth are those of a link that was not measured: then they decide, and the
            measured sums only say what CPU time an exchange takes.
        processor_rate: bytes per second that a rank sends and adds up in CPU time, where no sums were measured.
    """

    ranks: int
    points: tuple[Point, ...]
    latency: float
    bandwidth: float
    assumed: bool = False
    processor_rate: float = 1.5e9

    def cost(self, size: float, ranks: int) -> Cost:
        """Return what the sum of so many bytes costs each of so many ranks; it grows with both."""
        if ranks < 2 or size <= 0:  # nobody to exchange with
            return Cost(0.0, 0.0, 0.0)
        messages, moved = 2 * (ranks - 1), 2 * (ranks - 1) / ranks * size
        if not self.points:
            return Cost(messages * self.latency, moved / self.bandwidth, moved / self.processor_rate)
        # Each part grows with the ranks as a ring says; at as many ranks as were measured, nothing is changed.
        more_messages = (ranks - 1) / (self.ranks - 1)
        more_bytes = (ranks - 1) / ranks * self.ranks / (self.ranks - 1)
        first = self.points[0]
        # A sum of few bytes was measured longer than one of more, where something came in between: the least counts.
        seconds = self._at(size, "seconds")
        latency = min(seconds, self._at(first.size, "seconds"))
        fixed = min(first.processor, latency)
        processor = fixed * more_messages + max(0.0, self._at(size, "processor") - fixed) * more_bytes
        if self.assumed:
            return Cost(messages * self.latency, max(moved / self.bandwidth, processor), processor)
        return Cost(latency * more_messages, (seconds - latency) * more_bytes, processor)

    def _at(self, size: float, name: str) -> float:
        """Interpolate a column between the sizes; beyond the largest, in proportion to the bytes."""
        sizes = [point.size for point in self.points]
        values = [float(getattr(point, name)) for point in self.points]
        for place in range(len(values) - 2, -1, -1):  # more bytes take no less
            values[place] = min(values[place], values[place + 1])
        place = bisect_left(sizes, size)
        if place == 0:
            return values[0]
        if place == len(sizes):
            return values[-1] * size / sizes[-1]
        share = (size - sizes[place - 1]) / (sizes[place] - sizes[place - 1])
        return values[place - 1] + share * (values[place] - values[place - 1])
