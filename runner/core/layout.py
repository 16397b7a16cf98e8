"""Layouts: how many processes run on which node."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

LARGEST_WORLD = 65_536
PATTERN = r"[0-9]{1,6}x[0-9]{1,6}|[0-9]{1,6}(\+[0-9]{1,6})+"
"""What a layout looks like; `Layout.parse` also checks the numbers."""
_LAYOUT = re.compile(PATTERN)
_WAY_OUT = "write nodes x processes, for example 1x2, or heterogeneous nodes, for example 2+3"


@dataclass(frozen=True)
class Layout:
    """Processes per node, node by node: `2x4` is (4, 4), `2+3` is (2, 3)."""

    processes: tuple[int, ...]

    @classmethod
    def parse(cls, text: object) -> Layout:
        """Read `nodes x processes` or `processes + processes`; ValueError says what is wrong."""
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
        """Return the number of processes of all nodes."""
        return self._first_ranks[-1]

    def first_rank(self, node: int) -> int:
        """Return the global rank of local rank 0 on a node (static rendezvous keeps the order of nodes)."""
        return self._first_ranks[node]

    def ranks_of(self, node: int) -> range:
        """Return the global ranks of the processes of a node."""
        return range(self.first_rank(node), self.first_rank(node) + self.processes[node])

    def node_of(self, rank: int) -> int:
        """Return the node that a global rank runs on, and 0 for a rank that the layout does not have."""
        return bisect_right(self._first_ranks, rank) - 1 if 0 <= rank < self.world_size else 0

    @cached_property
    def _first_ranks(self) -> tuple[int, ...]:
        """The first rank of each node, and after them the number of all."""
        return tuple(accumulate(self.processes, initial=0))

    def __str__(self) -> str:
        """Write the one canonical form: `2+2` is `2x2`."""
        if len(set(self.processes)) == 1:
            return f"{self.nodes}x{self.processes[0]}"
        return "+".join(map(str, self.processes))
