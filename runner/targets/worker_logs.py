"""Follows the files that torchrun gives to the stdout of its workers, while their launchers run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from runner.core import clock
from runner.records.folder import RunFolder
from runner.targets.base import Line, Note
from runner.targets.bounded_lines import BoundedLines, cut_note
from trainkit import files

POLL_SECONDS = 0.1
QUIET_POLLS = 5
"""The files are read every so many polls; the launchers are looked at in each."""
GRACE_SECONDS = 10.0
"""What the other nodes get after one has failed, and what every process gets to end when it is told to."""
BLOCK_BYTES = 262_144


class Launcher(Protocol):
    """What runs the processes of one node: a torchrun agent of this machine, or a container."""

    @property
    def ended(self) -> bool:
        """Whether it has ended."""

    @property
    def failed(self) -> bool:
        """Whether it has ended with anything but exit code 0."""

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most so long."""


class WorkerLogs:
    """The files `<node's folder>/*/attempt_0/<local rank>/stdout.log` of a run's workers."""

    def __init__(self, folder: RunFolder, processes: Mapping[int, int]) -> None:
        """Args: the run's folder, and the number of processes of each node."""
        self._tails = [
            Tail(folder.node(node), node, local_rank)
            for node, count in processes.items()
            for local_rank in range(count)
        ]

    def follow(self, launchers: Sequence[Launcher], stop: Callable[[], None]) -> Iterator[Line | None]:
        """Yield what is printed until every launcher has ended; if one fails, the others get a grace, then `stop`."""
        deadline = math.inf
        polls = 0
        while running := [one for one in launchers if not one.ended]:
            if polls % QUIET_POLLS == 0:
                yield from (line for tail in self._tails for line in tail.read())
            yield None
            polls += 1
            if deadline == math.inf and any(one.failed for one in launchers):
                deadline = clock.monotonic() + GRACE_SECONDS
            if clock.monotonic() > deadline:
                stop()
            running[0].wait(POLL_SECONDS)

    def rest(self) -> Iterator[Line | Note | None]:
        """Yield what is left when all have ended, and what was cut."""
        for tail in self._tails:
            yield from tail.read(to_end=True)
            if tail.cut:
                yield Note(cut_note(f"process {tail.local_rank} of node {tail.node}", tail.cut))


class Tail:
    """The lines of one worker's file as they are written."""

    def __init__(self, folder: Path, node: int, local_rank: int) -> None:
        self.node, self.local_rank = node, local_rank
        self._folder = folder
        self._path: Path | None = None
        self._offset = 0
        self._lines = BoundedLines()

    @property
    def cut(self) -> int:
        """How many lines were longer than what is looked at."""
        return self._lines.cut

    def read(self, *, to_end: bool = False) -> Iterator[Line | None]:
        """Yield the whole lines that are new, with None between blocks; with `to_end`, the unfinished last line too."""
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
                yield from self._as_lines(self._lines.feed(block))
                yield None
        if to_end:
            yield from self._as_lines(self._lines.finish())

    def _as_lines(self, texts: list[bytes]) -> Iterator[Line]:
        return (Line(self.node, self.local_rank, text) for text in texts if text)
