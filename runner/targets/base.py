"""What every target is: a Run becomes a Request, a Request becomes Lines, and at the end an Exit for each node."""

from __future__ import annotations

import signal
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from runner.manifest import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.console import Screen
    from runner.plan import Run
    from runner.record import RunFolder
    from runner.schema import NodeExit

_SIGNALLED = 128


class Line(NamedTuple):
    """One line that a process printed, without its newline."""

    node: int
    local_rank: int
    text: bytes


class Note(NamedTuple):
    """Something to be shown to the person who waits."""

    text: str


@dataclass(frozen=True)
class NodeRequest:
    """What is to be started on one node: a command, and the environment that it is given on top of its own."""

    argv: list[str]
    env: dict[str, str]
    processes: int


@dataclass(frozen=True)
class Request:
    """A run, ready to start; the same run always gives the same request."""

    nodes: list[NodeRequest]
    cwd: str
    options: dict[str, str] = field(default_factory=dict)
    file: ClassVar[str] = "request.json"
    """Its name in the run's folder."""

    def text(self) -> str:
        """Write the request as it is kept in `request/` and shown by `--dry-run`."""
        return to_json(asdict(self))


def exit_of(code: object) -> tuple[int | None, str | None]:
    """Read a container's exit code: itself, or the signal that its init hands on as 128 and the signal's number."""
    if not isinstance(code, int):
        return None, None
    try:
        return None, signal.Signals(code - _SIGNALLED).name
    except ValueError:
        return code, None


class Execution(Protocol):
    """A started run."""

    @property
    def exits(self) -> list[NodeExit]:
        """How each node's launcher ended; asked for when all have."""

    def lines(self) -> Iterator[Line | Note | None]:
        """Yield what the processes print until all have ended, and None now and then while nothing comes."""

    def stop(self) -> None:
        """End every process that was started, first politely, then by force; safe to call again."""


class Target(Protocol):
    """A way to run: a module with these two functions."""

    @staticmethod
    def request(run: Run, options: dict[str, str]) -> Request:
        """Build the request; pure: no clock, environment, disk or network."""

    @staticmethod
    def check(request: Request) -> None:
        """Raise RequestError, before anything is started or written, if this machine cannot carry it out."""

    @staticmethod
    def image(request: Request, screen: Screen) -> dict[str, Any] | None:
        """Describe the image that the run is started from, built where it is missing; None where there is none."""

    @staticmethod
    def start(request: Request, folder: RunFolder) -> Execution:
        """Start it; whatever the processes print goes to the folder's raw files."""
