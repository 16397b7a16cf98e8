"""Files of a node that arrive from another machine piece by piece, and are appended.

Only names of a node's own files are accepted, so that nothing a host prints is written anywhere else.
"""

import filecmp
import os
import re
from contextlib import suppress
from pathlib import Path

from runner.records.folder import RunFolder

_WORKER = re.compile(r"logs/[\w.-]{1,200}/attempt_\d{1,9}/\d{1,9}/(?:stdout\.log|stderr\.log|error\.json)", re.ASCII)
_ARTIFACT = re.compile(r"artifacts(?!/@node\d)(?:/[^\x00-\x1f\x7f/.][^\x00-\x1f\x7f/]{0,199}){1,8}")
"""No hidden files: tools that look at a folder may obey them."""


class NodeFiles:
    """The files of one node of a run, as they are on its host: `agent.log`, `logs/...` and `artifacts/...`."""

    def __init__(self, folder: RunFolder, node: int) -> None:
        self._folder, self._node = folder, node
        self._sizes: dict[str, int] = {}

    @staticmethod
    def takes(name: str) -> bool:
        """Return whether a file of this name is kept; artifacts are named by the programs."""
        return name == "agent.log" or bool(_WORKER.fullmatch(name) or _ARTIFACT.fullmatch(name))

    def begin(self) -> None:
        """Make the places of the node's files, empty."""
        self._folder.open_agent(self._node).close()
        self._sizes["agent.log"] = 0

    def sizes(self) -> dict[str, int]:
        """Return how much is kept of each file, by its name on the host."""
        if not self._sizes:
            node, agent = self._folder.node(self._node), self._folder.agent(self._node)
            self._sizes = {
                f"logs/{path.relative_to(node)}": path.stat().st_size for path in node.glob("*/attempt_*/*/*")
            }
            self._sizes |= {"agent.log": agent.stat().st_size} if agent.exists() else {}
        return dict(self._sizes)

    def append(self, name: str, at: int, data: bytes) -> None:
        """Add a piece of a file; ValueError for a name that no node has, or a piece that is not the next one."""
        path = self._place(name)
        if at != self._sizes.get(name, 0):
            raise ValueError(f"{name}: this piece of it was not to come")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if at else "wb") as file:  # one of an earlier connection, or attempt, begins anew
            file.write(data)
        self._sizes[name] = at + len(data)

    def _place(self, name: str) -> Path:
        if not self.takes(name):
            raise ValueError(f"{name!r} is no file of a run")
        top, _, inner = name.partition("/")
        if top == "artifacts":
            return (_of_node(self._folder, self._node) if self._node else self._folder.path / top) / inner
        return self._folder.node(self._node) / inner if inner else self._folder.agent(self._node)


def settle(folder: RunFolder, nodes: int) -> None:
    """Put the artifacts of all nodes together, once all are here: as on one disk, unless two of one name differ.

    Those that another node has too, with another content, stay in `artifacts/@node1/` and so on. May be called again.
    """
    for own in (_of_node(folder, node) for node in range(1, nodes)):
        for place, _, names in os.walk(own, topdown=False):
            for name in names:
                _move(Path(place, name), folder.path / "artifacts" / Path(place, name).relative_to(own))
            with suppress(OSError):  # some are left
                Path(place).rmdir()


def _of_node(folder: RunFolder, node: int) -> Path:
    return folder.path / "artifacts" / f"@node{node}"


def _move(path: Path, to: Path) -> None:
    """Move a file, unless there is another one; what cannot be moved stays."""
    with suppress(OSError):
        if not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            path.rename(to)
        elif filecmp.cmp(path, to, shallow=False):
            path.unlink()
