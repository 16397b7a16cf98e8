"""What lies in a run's `raw/`: found in one walk, by what each file is of. Links and special files are left out."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from runner.core.layout import Layout
from runner.core.text import one_line

MOST_FILES = 500_000
DEEPEST = 5
_OWN = re.compile(r"node(\d{1,9})-(?:rank(\d{1,9})\.(stdout|stderr|error\.json|seen)|(agent)\.log|(exit)\.json)")
_WORKER = re.compile(r"node(\d{1,9})/[^/]+/attempt_\d{1,9}/(\d{1,9})/(?:(stdout|stderr)\.log|(error\.json))")


class RawFiles:
    """The files of `raw/`: each process's output, each launcher's, and how each node ended.

    A process's file has its lasting name once the run has ended; before that it is where torchrun put it. `left_out`
    names each link, special file or folder that was not looked into.
    """

    def __init__(self, raw: Path, layout: Layout) -> None:
        self.layout = layout
        self.left_out: list[str] = []
        self.outputs: dict[tuple[int, str], Path] = {}
        self.workers: dict[tuple[int, str], Path] = {}
        self.agents: dict[int, Path] = {}
        self.exits: dict[int, Path] = {}
        self.bytes = 0
        self.last_written = 0.0
        self._files = 0
        if raw.is_symlink():
            self.left_out.append("raw: it is a link, and links are not followed")
        else:
            self._walk(str(raw), "", 0)

    def output(self, rank: int, stream: str) -> Path | None:
        """Return the file of one process's `stdout` or `stderr`, or its `error.json`, which torch writes."""
        return self.outputs.get((rank, stream)) or self.workers.get((rank, stream))

    def printed(self) -> Iterator[tuple[int, Path]]:
        """Yield every file that holds what processes printed, with the first rank that it may be of.

        A pod has one log for its launcher and all of its processes: the launcher's file.
        """
        ranks = sorted({rank for rank, stream in (*self.outputs, *self.workers) if stream == "stdout"})
        yield from ((rank, path) for rank in ranks if (path := self.output(rank, "stdout")))
        yield from ((self.layout.first_rank(node), self.agents[node]) for node in sorted(self.agents))

    def _walk(self, folder: str, inner: str, depth: int) -> None:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            if depth or not isinstance(error, FileNotFoundError):
                self._leave_out(inner, error.strerror or "it cannot be read")
            return
        for entry in entries:
            self._take(entry, f"{inner}{entry.name}", depth)

    def _take(self, entry: os.DirEntry[str], name: str, depth: int) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return  # it has just gone
        self._files += 1
        if stat.S_ISLNK(status.st_mode):
            self._leave_out(name, "it is a link, and links are not followed")
        elif stat.S_ISDIR(status.st_mode):
            if depth < DEEPEST:
                self._walk(entry.path, f"{name}/", depth + 1)
        elif not stat.S_ISREG(status.st_mode):
            self._leave_out(name, "it is no regular file")
        elif self._files > MOST_FILES:
            self._leave_out("...", f"there are more than {MOST_FILES:,} files")
        else:
            self.bytes += status.st_size
            self.last_written = max(self.last_written, status.st_mtime)
            self._sort(name, Path(entry.path))

    def _sort(self, name: str, path: Path) -> None:
        layout = self.layout
        if own := _OWN.fullmatch(name):
            node, rank, stream, agent, _ = own.groups()
            if stream and int(rank) < layout.world_size:
                self.outputs[int(rank), stream] = path
            elif not stream and int(node) < layout.nodes:
                (self.agents if agent else self.exits)[int(node)] = path
        elif worker := _WORKER.fullmatch(name):
            node, local_rank = int(worker[1]), int(worker[2])
            if node < layout.nodes and local_rank < layout.processes[node]:
                self.workers[layout.first_rank(node) + local_rank, worker[3] or worker[4]] = path  # the last attempt's

    def _leave_out(self, name: str, why: str) -> None:
        if len(self.left_out) <= DEEPEST * 4:
            self.left_out.append(one_line(f"raw/{name.rstrip('/')}: left out: {why}"))
