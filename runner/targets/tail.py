"""Follows the file that torchrun gives to a worker's stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.targets.base import Line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONGEST_LINE = 1_000_000


class Tail:
    """The lines of `<log dir>/*/attempt_0/<local rank>/stdout.log` as they are written."""

    def __init__(self, folder: Path, node: int, local_rank: int) -> None:
        self._folder, self._node, self._local_rank = folder, node, local_rank
        self._path: Path | None = None
        self._offset = 0
        self._rest = b""

    def read(self, *, to_end: bool = False) -> Iterator[Line]:
        """Yield the whole lines that are new; with `to_end`, the unfinished last one too."""
        if self._path is None:
            self._path = next(self._folder.glob(f"*/attempt_*/{self._local_rank}/stdout.log"), None)
        if self._path is None:
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            fresh = file.read()
        self._offset += len(fresh)
        *lines, self._rest = (self._rest + fresh).split(b"\n")
        if to_end or len(self._rest) > LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for text in lines:
            if text:
                yield Line(self._node, self._local_rank, text)
