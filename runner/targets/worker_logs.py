"""Follow the files of the workers' stdout while their launchers run.

Lines longer than `LONGEST_LINE` are cut here, because a process may print gigabytes without a newline. The raw files
keep whole lines.
"""

import math
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from runner.core import clock
from runner.records.folder import RunFolder
from runner.targets.base import FollowedNode, Handle, Line, Note
from trainkit import files

POLL_SECONDS = 0.1
QUIET_POLLS = 5
"""Polls of the launchers between two reads of the files."""
GRACE_SECONDS = 10.0
"""Time for the other nodes to end after a node has failed, and for a process to end after SIGTERM."""
BLOCK_BYTES = 262_144
LONGEST_LINE = 65_536
"""Length in bytes; the kit's event lines have at most 4 KB."""


class Tail:
    """Reads a worker's stdout file while the file grows. `path` is the file if all workers of a node share one."""

    def __init__(self, folder: Path, node: int, local_rank: int, path: Path | None = None) -> None:
        self.node, self.local_rank = node, local_rank
        self._folder = folder
        self._path = path
        self._offset = 0
        self.lines = BoundedLines()

    def read(self, *, to_end: bool = False) -> Iterator[Line | None]:
        """Yield new complete lines, and None after each block. With `to_end`, yield an incomplete last line too."""
        if self._path is None:
            self._path = next(self._folder.glob(f"*/attempt_*/{self.local_rank}/stdout.log"), None)
        if self._path is None:
            return
        try:
            file = files.open_file(self._path, self._folder)
        except OSError:  # the program replaced or removed the file
            return
        with file:
            size = os.fstat(file.fileno()).st_size  # a program may never stop printing
            file.seek(self._offset)
            while self._offset < size and (block := file.read(min(BLOCK_BYTES, size - self._offset))):
                self._offset += len(block)
                yield from self._as_lines(self.lines.feed(block))
                yield None
        if to_end:
            yield from self._as_lines(self.lines.finish())

    def _as_lines(self, texts: list[bytes]) -> Iterator[Line]:
        return (Line(self.node, self.local_rank, text) for text in texts if text)


class WorkersHandle(Handle):
    """A run whose workers print into files on this machine. Subclasses start and end the nodes.

    `processes` has the number of workers of each node. If the list is empty, workers print into their launcher's file.
    """

    def __init__(self, folder: RunFolder, nodes: Sequence[FollowedNode], processes: Sequence[int] = ()) -> None:
        self.nodes, self._folder = nodes, folder
        self._tails = [
            Tail(folder.node(node.number), node.number, local_rank)
            for node, count in zip(nodes, processes, strict=False)
            for local_rank in range(count)
        ] or [Tail(folder.raw, node.number, 0, folder.agent(node.number)) for node in nodes]

    def lines(self) -> Iterator[Line | Note | None]:
        """Start the nodes, yield their workers' output until all nodes have ended, and clean up."""
        yield from self._start()
        yield from self._follow()
        yield from self._finish()
        for tail in self._tails:
            yield from tail.read(to_end=True)
        if self.left:
            yield Note(self.left)

    def _follow(self) -> Iterator[Line | Note | None]:
        """Yield output until all nodes have ended. If a node fails, end the other nodes after the grace period."""
        deadline = math.inf
        polls = 0
        while running := [node for node in self.nodes if not node.ended]:
            if polls % QUIET_POLLS == 0:
                yield from (line for tail in self._tails for line in tail.read())
            yield None
            yield from self._said()
            polls += 1
            if deadline == math.inf and any(node.failed for node in self.nodes):
                deadline = clock.monotonic() + GRACE_SECONDS
            if clock.monotonic() > deadline:
                self._end()
            running[0].wait(POLL_SECONDS)

    @abstractmethod
    def _start(self) -> Iterable[Note | None]:
        """Start all nodes. Raises OSError if a node cannot start."""

    def _end(self) -> None:
        self.stop()

    @abstractmethod
    def _finish(self) -> Iterable[Note | None]:
        """Remove everything that the nodes leave behind after their end."""

    def _said(self) -> Iterator[Note]:
        for node in self.nodes:
            while node.notes:
                yield Note(node.notes.popleft())
            if node.failure:
                raise node.failure


class BoundedLines:
    """Splits blocks of bytes into lines of limited length, without their newlines."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest, self._begun = longest, b""

    def feed(self, block: bytes) -> list[bytes]:
        """Return the lines that this block completes. Carriage returns also end lines, for example in progress bars."""
        *ends, begun = block.replace(b"\r", b"\n").split(b"\n")
        lines = []
        for end in ends:
            lines.append((self._begun + end)[: self._longest])
            self._begun = b""
        self._begun = (self._begun + begun)[: self._longest]
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line if no newline ends it."""
        return self.feed(b"\n") if self._begun else []
