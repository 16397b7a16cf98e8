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
_EVEN = re.compile(r"([0-9]{1,6})x([0-9]{1,6})")
_HETEROGENEOUS = re.compile(r"[0-9]{1,6}(\+[0-9]{1,6})+")
_WAY_OUT = "write nodes x processes, for example 1x2, or heterogeneous nodes, for example 2+3"


@dataclass(frozen=True)
class Layout:
    """Processes per node, node by node: `2x4` is (4, 4), `2+3` is (2, 3)."""

    processes: tuple[int, ...]

    @classmethod
    def parse(cls, text: object) -> Layout:
        """Read `nodes x processes` or `processes + processes`; ValueError says what is wrong."""
        if not isinstance(text, str):
            msg = f"layout {text!r} makes no sense; {_WAY_OUT}"
            raise ValueError(msg)  # noqa: TRY004 - for the caller it is the value that is wrong
        if even := _EVEN.fullmatch(text):
            nodes, per_node = int(even[1]), int(even[2])
            if 0 < nodes * per_node <= LARGEST_WORLD:
                return cls((per_node,) * nodes)
        elif _HETEROGENEOUS.fullmatch(text):
            processes = tuple(int(part) for part in text.split("+"))
            if min(processes) > 0 and sum(processes) <= LARGEST_WORLD:
                return cls(processes)
        raise ValueError(f"layout '{text}' makes no sense; {_WAY_OUT}")

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.processes)

    @property
    def world_size(self) -> int:
        """Number of processes of all nodes."""
        return self._first_ranks[-1]

    def first_rank(self, node: int) -> int:
        """Global rank of local rank 0 on a node (static rendezvous keeps the order of nodes)."""
        return self._first_ranks[node]

    def ranks_of(self, node: int) -> range:
        """Global ranks of the processes of a node."""
        return range(self.first_rank(node), self.first_rank(node) + self.processes[node])

    def node_of(self, rank: int) -> int:
        """Node that a global rank runs on."""
        return bisect_right(self._first_ranks, rank) - 1

    @cached_property
    def _first_ranks(self) -> tuple[int, ...]:
        """The first rank of each node, and after them the number of all."""
        return tuple(accumulate(self.processes, initial=0))

    def __str__(self) -> str:
        """Write the one canonical form: `2+2` is `2x2`."""
        if len(set(self.processes)) == 1:
            return f"{self.nodes}x{self.processes[0]}"
        return "+".join(map(str, self.processes))
