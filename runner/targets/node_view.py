"""Build the commands that run `look.py` on a node, and decode its output."""

from __future__ import annotations

import base64
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from runner.core.text import one_line
from runner.targets import look

SECONDS = 12.0
"""Time limit of `look.py`, including the start of its process."""
LARGEST = 4_000_000
_FIRST_PYTHON = 'p=$(command -v python3 || command -v python) || exit 127; exec "$p" -I -c "$0" "$@"'
_UNPACKED = "import base64, zlib; exec(zlib.decompress(base64.b64decode('{}')))"
"""Code that runs packed code, because a pod's command is part of a URL."""


class Told(msgspec.Struct):
    """A launcher's settings: its node, the number of nodes, and node 0's address."""

    node: str | None = None
    nodes: str | None = None
    master: str = ""
    port: str = ""


class AgentView(msgspec.Struct):
    """A launcher: its process state (proc(5)), and whether it is connected to node 0.

    If the launcher is not connected, `look.py` tries to connect. `trouble` is the error, or empty after success.
    """

    pid: int
    state: str
    told: Told
    listening: bool
    connected: bool
    addresses: list[str] = []
    trouble: str = ""


class RankView(msgspec.Struct):
    """A rank's process: its state, its load in cores (`busy`), and the stack of its main thread, innermost frame first.

    If `retries` is true, the rank may be connecting to the group's store, and cannot be asked for its stack. `sets` has
    the program's lines that override torchrun's variables, such as `train.py:5 sets MASTER_PORT`.
    """

    rank: int
    pid: int
    state: str
    busy: float
    stack: list[tuple[str, int, str]]
    node: str | None = None
    listening: list[str] = []
    connecting: list[str] = []
    retries: bool = False
    sets: list[str] = []


@dataclass(frozen=True)
class NodeView:
    """The processes of one node at one moment."""

    node: int
    seen: Seen | None = None
    """The node's launchers and ranks; None if unknown."""
    idle: str | None = None
    """Why nothing runs on the node, for example a paused container."""
    trouble: str | None = None
    """Why the node could not be inspected."""


class Seen(msgspec.Struct):
    """The launchers and ranks of a node, or of all nodes on this machine.

    `nameless` counts workers whose rank is unknown, because process titles have overwritten their environment.
    """

    host: str
    agents: list[AgentView]
    ranks: list[RankView]
    nameless: int = 0

    def of_node(self, node: int, idle: str | None = None) -> NodeView:
        """Return the view of one node. If the node has no process, the view has `idle` as the reason."""
        agents = [agent for agent in self.agents if agent.told.node == str(node)]
        ranks = [rank for rank in self.ranks if rank.node == str(node)]
        return NodeView(node, Seen(self.host, agents, ranks, self.nameless), None if agents or ranks else idle)


_decoder = msgspec.json.Decoder(Seen)
"""Made at import, because msgspec 0.22 crashes if two threads are the first to use a type."""


def command_here(mark: str, *, abort: bool) -> list[str]:
    """Return the command that runs `look.py` on this machine."""
    return [sys.executable, "-I", "-c", script(), *(["--abort"] if abort else []), mark]


def command_inside(*, abort: bool) -> list[str]:
    """Return the command that runs `look.py` inside a container, with the container's `python3` or else `python`."""
    packed = base64.b64encode(zlib.compress(script().encode(), 9)).decode("ascii")
    return ["sh", "-c", _FIRST_PYTHON, _UNPACKED.format(packed), *(["--abort"] if abort else [])]


def read(output: bytes) -> Seen:
    """Decode the line of `look.py` in an output with other lines. Raises ValueError if there is no such line."""
    lines = output[-LARGEST:].strip().split(b"\n")
    for line in reversed(lines):
        if line.startswith(look.MARK.encode()):
            return _decoder.decode(line[len(look.MARK) :])
    raise ValueError(one_line(lines[-1].decode("utf-8", "replace"), 200) or "no answer")


def view(node: int, output: bytes) -> NodeView:
    """Decode the output of `look.py` from a container or host that runs one node."""
    try:
        return NodeView(node, read(output))
    except ValueError as error:
        return NodeView(node, trouble=str(error))


def script() -> str:
    """Return the source of `look.py`."""
    return Path(look.__file__).read_text("utf-8")
