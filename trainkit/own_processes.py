"""The processes of a run on this node (torchrun and its descendants), and their CPU time."""

import os
import time
from collections import defaultdict

SEARCH_SECONDS = 10.0
"""Interval of the search for new processes, such as data loaders; each search reads a file of every process."""
_TICKS = os.sysconf("SC_CLK_TCK")


class OwnProcesses:
    """The launcher of this node's ranks and its descendants; without torchrun, this process and its descendants."""

    def __init__(self) -> None:
        self._root = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else os.getpid()
        self._pids: set[int] = set()
        self._search()

    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds used so far; None without /proc.

        The time of an ended process counts as its parent's (proc(5), `cutime`), so no time is lost.
        """
        if time.monotonic() - self._searched >= SEARCH_SECONDS:
            self._search()
        used = [ticks for pid in self._pids if (ticks := _parent_and_ticks(pid)[1]) is not None]
        return sum(used) / _TICKS if used else None

    def any_of(self, pids: set[int]) -> bool:
        """Return whether any of these processes belongs to the run."""
        return not self._pids.isdisjoint(pids)

    def all_of(self, pids: set[int]) -> bool:
        """Return whether all of these processes belong to the run, searching for unknown ones first."""
        if not pids <= self._pids:
            self._search()
        return pids <= self._pids

    def _search(self) -> None:
        self._searched = time.monotonic()
        children: dict[int, list[int]] = defaultdict(list)
        try:
            pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - names are enough
        except OSError:
            pids = []
        for pid in pids:
            parent, _ = _parent_and_ticks(pid)
            children[parent].append(pid)
        found, unseen = set(), [self._root]
        while unseen:
            pid = unseen.pop()
            found.add(pid)
            unseen += [child for child in children[pid] if child not in found]
        self._pids = found


def _parent_and_ticks(pid: int) -> tuple[int, int | None]:
    """Return a process's parent, and the clock ticks used by it and its ended children; (0, None) if it has ended.

    In proc(5)'s `stat`, the fields after the name, which may hold any text, are state, parent, and utime to cstime.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - for each process, each second
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), sum(map(int, fields[11:15]))
    except (OSError, ValueError, IndexError):
        return 0, None
