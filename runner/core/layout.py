"""Layouts: how many processes run on which node."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

LARGEST_WORLD = 65_536
PATTERN = r"[0-9]{1,6}x[0-9]{1,6}|[0-9]{1,6}(\+[0-9]{1,6})+"
"""The form of a layout; `Layout.parse` also checks the numbers."""
_LAYOUT = re.compile(PATTERN)
_WAY_OUT = "write nodes x processes, for example 1x2, or heterogeneous nodes, for example 2+3"


@dataclass(frozen=True)
class Layout:
    """The number of processes on each node: `2x4` is (4, 4), `2+3` is (2, 3)."""

    processes: tuple[int, ...]

    @classmethod
    def parse(cls, text: object) -> Layout:
        """Parse `2x4` or `2+3`. Raises ValueError for other forms, nodes without processes, and too many processes."""
        if isinstance(text, str) and _LAYOUT.fullmatch(text):
            nodes, is_even, per_node = text.partition("x")
            processes = (int(per_node),) * int(nodes) if is_even else tuple(map(int, text.split("+")))
            if processes and min(processes) > 0 and sum(processes) <= LARGEST_WORLD:
                return cls(processes)
        shown = f"'{text}'" if isinstance(text, str) else repr(text)
        raise ValueError(f"layout {shown} makes no sense; {_WAY_OUT}")

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return len(self.processes)

    @property
    def world_size(self) -> int:
        """Return the number of processes on all nodes."""
        return self._first_ranks[-1]

    def first_rank(self, node: int) -> int:
        """Return the global rank of a node's local rank 0. Static rendezvous numbers ranks in the order of nodes."""
        return self._first_ranks[node]

    def ranks_of(self, node: int) -> range:
        """Return the global ranks on a node."""
        return range(self.first_rank(node), self.first_rank(node) + self.processes[node])

    def node_of(self, rank: int) -> int:
        """Return the node of a global rank, or 0 if the layout has no such rank."""
        return bisect_right(self._first_ranks, rank) - 1 if 0 <= rank < self.world_size else 0

    @cached_property
    def _first_ranks(self) -> tuple[int, ...]:
        return tuple(accumulate(self.processes, initial=0))

    def __str__(self) -> str:
        """Return the canonical form: `2x2` for `2+2`."""
        if len(set(self.processes)) == 1:
            return f"{self.nodes}x{self.processes[0]}"
        return "+".join(map(str, self.processes))
