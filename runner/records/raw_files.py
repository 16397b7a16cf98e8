"""The files in a run's `raw/`, listed in one walk."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from runner.core.layout import Layout

_LASTING = re.compile(r"node(\d{1,9})-(?:rank(\d{1,9})\.(stdout|stderr|error\.json|seen)|(agent)\.log|(exit)\.json)")
_WORKER = re.compile(r"node(\d{1,9})/[^/]+/attempt_\d{1,9}/(\d{1,9})/(stdout|stderr|error\.json)(?:\.log)?")


class RawFiles:
    """The files of `raw/`: each process's output, each launcher's, and how each node ended.

    A process's file has its lasting name once the run has ended; before that it is where torchrun put it.
    """

    def __init__(self, raw: Path, layout: Layout) -> None:
        self.layout = layout
        self.outputs: dict[tuple[int, str], Path] = {}
        self.agents: dict[int, Path] = {}
        self.exits: dict[int, Path] = {}
        self.bytes = 0
        self.last_written = 0.0
        for folder, folders, names in os.walk(raw):
            folders.sort()  # the last attempt of a process counts
            for path in (Path(folder, name) for name in names):
                with suppress(FileNotFoundError):  # it has just gone
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode):
                        self.bytes += status.st_size
                        self.last_written = max(self.last_written, status.st_mtime)
                        self._sort(path.relative_to(raw).as_posix(), path)

    def output(self, rank: int, stream: str) -> Path | None:
        """Return the file of one process: `stdout`, `stderr`, `error.json` (torch) or `seen` (the hooks)."""
        return self.outputs.get((rank, stream))

    def printed(self) -> Iterator[tuple[int, Path]]:
        """Yield each file with output of processes, with the first rank that it may belong to.

        A pod has one log for its launcher and all processes: the launcher's file.
        """
        yield from ((rank, path) for (rank, stream), path in sorted(self.outputs.items()) if stream == "stdout")
        yield from ((self.layout.first_rank(node), path) for node, path in sorted(self.agents.items()))

    def _sort(self, name: str, path: Path) -> None:
        layout = self.layout
        if lasting := _LASTING.fullmatch(name):
            node, rank, stream, agent, _ = lasting.groups()
            if stream and int(rank) < layout.world_size:
                self.outputs[int(rank), stream] = path
            elif not stream and int(node) < layout.nodes:
                (self.agents if agent else self.exits)[int(node)] = path
        elif worker := _WORKER.fullmatch(name):
            node, local_rank = int(worker[1]), int(worker[2])
            if node < layout.nodes and local_rank < layout.processes[node]:
                key = layout.first_rank(node) + local_rank, worker[3]
                if not _LASTING.fullmatch(self.outputs.get(key, path).name):
                    self.outputs[key] = path


def end_of(path: Path | None, most: int) -> str:
    """Read the last bytes of a file; empty for one that cannot be read."""
    with suppress(OSError):
        if path:
            with path.open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - most))
                return file.read(most).decode("utf-8", "replace")
    return ""
