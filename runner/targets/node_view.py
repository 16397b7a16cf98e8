"""What `look.py` sees of one node, decoded: it comes out of containers and hosts."""

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
"""Time limit of a look, with the start of whatever carries it."""
LARGEST = 4_000_000
_FIRST_PYTHON = 'p=$(command -v python3 || command -v python) || exit 127; exec "$p" -I -c "$0" "$@"'
_UNPACKED = "import base64, zlib; exec(zlib.decompress(base64.b64decode('{}')))"
"""A pod gets its command in the URL of a request, which should be short."""


class Told(msgspec.Struct):
    """The world that a launcher was told of."""

    node: str | None = None
    nodes: str | None = None
    master: str = ""
    port: str = ""


class AgentView(msgspec.Struct):
    """A launcher: its process's state (proc(5)), whether it has reached node 0, and if not, what its attempt gives.

    `trouble` is empty if node 0 can be reached.
    """

    pid: int
    state: str
    told: Told
    listening: bool
    connected: bool
    addresses: list[str] = []
    trouble: str = ""


class RankView(msgspec.Struct):
    """A rank's process: its state, the cores that it keeps busy, and its main thread's stack, the innermost first.

    `retries`: it may still be looking for the store of the group, and cannot be asked for its stack. `sets`: lines of
    the program that override torchrun's variables for that, such as `train.py:5 sets MASTER_PORT`.
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
    """One node at one moment."""

    node: int
    seen: Seen | None = None
    """What runs there; None if not known."""
    idle: str | None = None
    """Why nothing runs there, for example a paused container."""
    trouble: str | None = None
    """Why it could not be looked at."""


class Seen(msgspec.Struct):
    """What runs on a node, or on this machine for all nodes that are here.

    `nameless` counts workers whose ranks are not known: their titles have overwritten their environment.
    """

    host: str
    agents: list[AgentView]
    ranks: list[RankView]
    nameless: int = 0

    def of_node(self, node: int, idle: str | None = None) -> NodeView:
        """Return the view of one of the nodes that are here; `idle` is the reason if nothing of it runs."""
        agents = [agent for agent in self.agents if agent.told.node == str(node)]
        ranks = [rank for rank in self.ranks if rank.node == str(node)]
        return NodeView(node, Seen(self.host, agents, ranks, self.nameless), None if agents or ranks else idle)


_decoder = msgspec.json.Decoder(Seen)
"""Made here, once: msgspec 0.22 crashes if two threads, which each look at a node, meet a type for the first time."""


def command_here(mark: str, *, abort: bool) -> list[str]:
    """Return the command that looks at this machine."""
    return [sys.executable, "-I", "-c", script(), *(["--abort"] if abort else []), mark]


def command_inside(*, abort: bool) -> list[str]:
    """Return the command that looks at the container that it runs in, with the first Python there."""
    packed = base64.b64encode(zlib.compress(script().encode(), 9)).decode("ascii")
    return ["sh", "-c", _FIRST_PYTHON, _UNPACKED.format(packed), *(["--abort"] if abort else [])]


def read(output: bytes) -> Seen:
    """Read what the script printed, among whatever else an image prints; ValueError if it is not there."""
    lines = output[-LARGEST:].strip().split(b"\n")
    for line in reversed(lines):
        if line.startswith(look.MARK.encode()):
            return _decoder.decode(line[len(look.MARK) :])  # its errors are ValueErrors
    raise ValueError(one_line(lines[-1].decode("utf-8", "replace"), 200) or "no answer")


def view(node: int, output: bytes) -> NodeView:
    """Return the view of a node that is alone where the script ran."""
    try:
        return NodeView(node, read(output))
    except ValueError as error:
        return NodeView(node, trouble=str(error))


def script() -> str:
    """Return the text of the script, for a Python that reads it."""
    return Path(look.__file__).read_text("utf-8")
