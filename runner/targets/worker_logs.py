"""Follows the files of the workers' stdout while their launchers run.

A process may print gigabytes without a newline. A line longer than `LONGEST_LINE` is cut in the live view; the raw
files keep it whole.
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
"""Time for the other nodes after one has failed, and for a process to end when told to."""
BLOCK_BYTES = 262_144
LONGEST_LINE = 65_536
"""In bytes; an event line has at most 4 KB."""


class Tail:
    """The lines of one worker's file as they are written; with a path, those of all of a node's workers."""

    def __init__(self, folder: Path, node: int, local_rank: int, path: Path | None = None) -> None:
        self.node, self.local_rank = node, local_rank
        self._folder = folder
        self._path = path
        self._offset = 0
        self.lines = BoundedLines()

    def read(self, *, to_end: bool = False) -> Iterator[Line | None]:
        """Yield new whole lines, with None between blocks; with `to_end`, the unfinished last line too."""
        if self._path is None:
            self._path = next(self._folder.glob(f"*/attempt_*/{self.local_rank}/stdout.log"), None)
        if self._path is None:
            return
        try:
            file = files.open_file(self._path, self._folder)
        except OSError:  # a program put something else in its place, or removed it
            return
        with file:
            size = os.fstat(file.fileno()).st_size  # what comes meanwhile is for the next time: it may never end
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
    """A run whose workers print into files of this machine; targets differ in how nodes start and end.

    `processes` says how many each node has; without it they print where their launcher does.
    """

    def __init__(self, folder: RunFolder, nodes: Sequence[FollowedNode], processes: Sequence[int] = ()) -> None:
        self.nodes, self._folder = nodes, folder
        self._tails = [
            Tail(folder.node(node.number), node.number, local_rank)
            for node, count in zip(nodes, processes, strict=False)
            for local_rank in range(count)
        ] or [Tail(folder.raw, node.number, 0, folder.agent(node.number)) for node in nodes]

    def lines(self) -> Iterator[Line | Note | None]:
        """Start the nodes, follow the files of their workers until all have ended, and remove what was started."""
        yield from self._start()
        yield from self._follow()
        yield from self._finish()
        for tail in self._tails:
            yield from tail.read(to_end=True)
        if self.left:
            yield Note(self.left)

    def _follow(self) -> Iterator[Line | Note | None]:
        """Yield what is printed until all nodes have ended; if one fails, the others get a grace and are then ended."""
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
        """Start all nodes; OSError if that fails."""

    def _end(self) -> None:
        """End the nodes that still run after one has failed."""
        self.stop()

    @abstractmethod
    def _finish(self) -> Iterable[Note | None]:
        """Remove what is left now that all nodes have ended."""

    def _said(self) -> Iterator[Note]:
        """Yield the nodes' notes; raise OSError if the output of one can no longer be kept."""
        for node in self.nodes:
            while node.notes:
                yield Note(node.notes.popleft())
            if node.failure:
                raise node.failure


class BoundedLines:
    """Splits blocks of bytes into lines without their newlines, each cut at a length."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest, self._begun = longest, b""

    def feed(self, block: bytes) -> list[bytes]:
        """Return the lines that this block completes; progress bars end theirs by a carriage return."""
        *ends, begun = block.replace(b"\r", b"\n").split(b"\n")
        lines = []
        for end in ends:
            lines.append((self._begun + end)[: self._longest])
            self._begun = b""
        self._begun = (self._begun + begun)[: self._longest]
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line, if it has no newline."""
        return self.feed(b"\n") if self._begun else []
