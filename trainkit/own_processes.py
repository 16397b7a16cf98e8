"""The processes of a run on this node, torchrun and all that it started, and the CPU time that they have used."""

import os
import time
from collections import defaultdict

SEARCH_SECONDS = 10.0
"""How often new processes, for example those that load data, are looked for: that reads a file of every process."""
_TICKS = os.sysconf("SC_CLK_TCK")


class OwnProcesses:
    """The process that started the ranks of this node, and all below it; without torchrun this process and below."""

    def __init__(self) -> None:
        self._root = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else os.getpid()
        self._pids: set[int] = set()
        self._search()

    def cpu_seconds(self) -> float | None:
        """Return the CPU time used so far; None without a /proc.

        The time of a process that has ended is its parent's from then on (proc(5), `cutime`), so none is lost.
        """
        if time.monotonic() - self._searched >= SEARCH_SECONDS:
            self._search()
        used = [ticks for pid in self._pids if (ticks := _parent_and_ticks(pid)[1]) is not None]
        return sum(used) / _TICKS if used else None

    def any_of(self, pids: set[int]) -> bool:
        """Return whether any of these processes is one of the run's."""
        return not self._pids.isdisjoint(pids)

    def all_of(self, pids: set[int]) -> bool:
        """Return whether all of these processes are the run's; whoever is unknown is looked for first."""
        if not pids <= self._pids:
            self._search()
        return pids <= self._pids

    def _search(self) -> None:
        """Find all processes below the first one."""
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
    """Read a process's parent, and the clock ticks that it and its ended children have used; 0 and None if it is gone.

    The fields of proc(5)'s `stat` behind the name, which may hold anything: state, parent, and utime to cstime.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - for each process, each second
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), sum(map(int, fields[11:15]))
    except (OSError, ValueError, IndexError):
        return 0, None
