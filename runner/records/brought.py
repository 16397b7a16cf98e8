"""Files of a node that come from another machine piece by piece: each is appended to what is kept of it already.

What comes names its files. A name is only taken if it is one that a node of a run has, so that nothing is written
anywhere else, whoever sends it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from trainkit import files

if TYPE_CHECKING:
    from pathlib import Path

    from runner.records.folder import RunFolder

_WORKER = re.compile(r"logs/[\w.-]{1,200}/attempt_\d{1,9}/\d{1,9}/(?:stdout\.log|stderr\.log|error\.json)", re.ASCII)
_ARTIFACT = re.compile(r"artifacts(?:/[\w+=@-][\w.+=@ -]{0,199}){1,6}")
MOST_FILES = 20_000
"""Files that one node may send."""


class Brought:
    """The files of one node of a run, as they are on its host: `agent.log`, `logs/...` and `artifacts/...`."""

    def __init__(self, folder: RunFolder, node: int) -> None:
        self._folder, self._node = folder, node
        self._sizes: dict[str, int] = {}

    def begin(self) -> None:
        """Make the places of the node's files, empty."""
        self._folder.open_agent(self._node).close()
        self._sizes["agent.log"] = 0

    def sizes(self) -> dict[str, int]:
        """Return how much is kept of each file, by its name on the host."""
        if not self._sizes:
            node = self._folder.node(self._node)
            for path in [*node.glob("*/attempt_*/*/*"), self._folder.agent(self._node)]:
                if files.is_file(path):
                    name = f"logs/{path.relative_to(node)}" if path.is_relative_to(node) else "agent.log"
                    self._sizes[name] = path.lstat().st_size
        return dict(self._sizes)

    def append(self, name: str, at: int, data: bytes) -> None:
        """Add a piece of a file; ValueError for a name that no node has, or a piece that is not the next one."""
        path = self._place(name)
        if at != self._sizes.get(name, 0) or (name not in self._sizes and len(self._sizes) >= MOST_FILES):
            msg = f"{name}: this piece of it was not to come"
            raise ValueError(msg)
        with suppress(FileExistsError):
            self._make(path.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        if at == 0:  # another node may have a file of this name, as on a disk that nodes share
            flags |= os.O_TRUNC
        with os.fdopen(os.open(path, flags, 0o666), "ab") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is no regular file", str(path))
            file.write(data)
        self._sizes[name] = at + len(data)

    def _place(self, name: str) -> Path:
        if name == "agent.log":
            return self._folder.agent(self._node)
        if _WORKER.fullmatch(name):
            return self._folder.node(self._node) / name.removeprefix("logs/")
        if _ARTIFACT.fullmatch(name):
            return self._folder.path / name
        msg = f"{name!r} is no file of a run"
        raise ValueError(msg)

    def _make(self, folder: Path) -> None:
        """Make the folders above a file, none of them through a link."""
        above = [one for one in folder.parents if one.is_relative_to(self._folder.path)]
        for one in [*reversed(above), folder]:
            with suppress(FileExistsError):
                one.mkdir()
            if not files.is_folder(one):
                raise OSError(errno.ENOTDIR, f"{one.name} is no folder, or a link", str(one))
