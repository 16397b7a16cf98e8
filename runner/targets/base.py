"""The contract of a target: a way to run, for example as processes of this machine or as pods of a cluster.

    Run --spec()--> LaunchSpec --start()--> Handle --lines()--> Line ... --exits--> NodeExit of each node

A target has eleven methods: six of `Target` and five of the `Handle` that its `start` returns; only tools call `once`.
It lives in one file or folder of `runner/targets/` and is named in the table of `targets/__init__.py`. It does not
parse what the processes print, and writes only into the raw files of the run's folder.
"""

import signal
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin

from runner.core.errors import RequestError
from runner.core.yaml_writer import to_json
from runner.definitions.plan import Run
from runner.records.folder import RunFolder
from runner.records.schema import NodeExit
from runner.targets.node_view import NodeView

SIGNALLED = 128
"""A container's init adds this to the number of the signal that ended its process."""
BEYOND_SECONDS = 600
"""A cluster ends a job this long after the run's own time-out, in case the runner is killed."""
_MOST_AT_ONCE = 16


class Line(NamedTuple):
    """One line that a process printed, without its newline."""

    node: int
    local_rank: int
    text: bytes


@dataclass(frozen=True)
class Note:
    """Something to show beside the progress, for example why a pod has not started."""

    text: str


@dataclass(frozen=True)
class NodeSpec:
    """What to start on one node: a command, and its environment on top of the node's."""

    argv: list[str]
    env: dict[str, str]
    processes: int


@dataclass(frozen=True)
class LaunchSpec:
    """A run, ready to start; equal runs and options give equal specs."""

    nodes: list[NodeSpec]
    cwd: str
    device: str
    options: dict[str, Any] = field(default_factory=dict)
    file: ClassVar[str] = "request.json"
    """The file of its text, below `request/`."""

    def text(self, run_id: str = "") -> str:  # noqa: ARG002 - for targets whose objects carry the id in their names
        """Return the text for `request/`; without a run's id, what `--dry-run` shows."""
        return to_json(asdict(self))


class FollowedNode:
    """The launcher of one node, from before its start to its end; `begin` follows it in a thread."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.stopped = False
        """Whether this runner told it to end."""
        self.failure: OSError | None = None
        """Why its output can no longer be kept, for example a full disk."""
        self.notes: deque[str] = deque()
        self._exit: NodeExit | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_begun(self) -> bool:
        """Whether it was started."""
        return self._thread is not None

    @property
    def exit(self) -> NodeExit | None:
        """How it ended; None until then, and until all of its output is kept."""
        return self._exit

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.exit is not None

    @property
    def failed(self) -> bool:
        """Whether it ended with anything but exit code 0."""
        return self.exit is not None and self.exit.code != 0

    def begin(self) -> None:
        """Follow it until it has ended."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def follow(self) -> NodeExit:
        """Keep what it prints, and return how it ended; called in the thread."""
        raise NotImplementedError

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most this long."""
        if self.is_begun:
            self._over.wait(seconds)  # an interrupted join would take the thread for ended (CPython, bpo-45274)

    def describe(self) -> NodeExit:
        """Return how it ended: without code and signal if it never started or has not ended."""
        return self.exit or NodeExit(self.number, stopped=True)

    def idle(self) -> NodeView | None:
        """Return why nothing runs on the node, if known."""
        return None

    def look(self, *, abort: bool) -> NodeView:
        """Look at the node's processes; see `Handle.look`."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self._exit = self.follow()
        finally:
            self._over.set()


def exit_of(code: object, signalled: int = 0) -> tuple[int | None, str | None]:
    """Read an exit code: (code, None), or (None, signal).

    The code is that of `subprocess`, -N for signal N; or a container's, to which its init adds `signalled`.
    """
    if not isinstance(code, int):
        return None, None
    with suppress(ValueError):
        return None, signal.Signals(code - signalled if signalled else -code).name
    return code if code >= 0 else None, None


class Handle(ABC):
    """A run from its start to its end.

    A target may start in `lines`, so that `stop` finds whatever was made if Ctrl-C comes in between.
    """

    nodes: Sequence[FollowedNode] = ()
    """The nodes that `exits`, `idle` and `look` describe."""
    left = ""
    """What could not be removed, and how to remove it."""

    @property
    def waited_seconds(self) -> float:
        """Time in a queue, which does not count as time of the run."""
        return 0.0

    @property
    def exits(self) -> list[NodeExit]:
        """How each node's launcher ended; read it after `lines` or `stop` has returned."""
        exits = self._exits()
        for ended in exits:
            ended.why = ended.why or self.left or None
        return exits

    def _exits(self) -> list[NodeExit]:
        return [node.describe() for node in self.nodes]

    @abstractmethod
    def lines(self) -> Iterator[Line | Note | None]:
        """Yield what the processes print until all have ended, and None in between, so that deadlines are checked.

        Raises OSError if the run cannot be started or followed.
        """

    def idle(self) -> list[NodeView]:
        """Name the nodes on which nothing runs, and why, with at most one question to the engine or cluster each.

        Like `look`, it is called from another thread and does not raise.
        """
        return [view for node in self.nodes if (view := node.idle())]

    def look(self, *, abort: bool = False) -> list[NodeView]:
        """Look at the nodes' processes, from another thread while `lines` is read; it does not raise.

        With `abort`, ranks that cannot be asked for their stack are ended, so that they print it.
        """
        idle = {view.node: view for view in self.idle()}
        running = [node for node in self.nodes if node.number not in idle]
        with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
            seen = list(pool.map(lambda node: node.look(abort=abort), running))
        return sorted([*seen, *idle.values()], key=lambda view: view.node)

    @abstractmethod
    def stop(self) -> None:
        """End everything that was started: SIGTERM, then SIGKILL after the grace; safe to call again.

        It does not raise: `exits` names what could not be removed.
        """


def option(help_text: str, default: Any = "", axis: str = "") -> Any:
    """Describe an option of a target in its dataclass `Options`.

    Args:
        help_text: what it is, for `runner targets`.
        default: its default.
        axis: its kind, if it decides how long a run takes: it becomes a column of tables.
    """
    return field(default=default, metadata={"help": help_text, **({"axis": axis} if axis else {})})


def axes_of(options: Any) -> dict[str, str]:
    """Return the kinds of the options that decide how long a run takes, by their names."""
    return {option.name: option.metadata["axis"] for option in fields(options) if "axis" in option.metadata}


def type_name(kind: Any) -> str:
    """Name the type of an option, for example `text` or `pytorchjob|indexed`."""
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    return {str: "text", int: "whole number", float: "number", bool: "true|false"}[kind]


@dataclass(frozen=True)
class NoOptions:
    """The options of a target that has none."""


Spec = TypeVar("Spec", bound=LaunchSpec)


class Target(ABC, Generic[Spec]):
    """A way to run; made by `targets.load` with the options of the command line."""

    name: ClassVar[str]
    summary: ClassVar[str]
    Options: ClassVar[type] = NoOptions
    """A frozen dataclass, each field an `option`; `targets.load` converts the values to the fields' types."""
    observes: ClassVar[bool] = False
    """Whether scripts are watched from inside (trainkit/observer)."""

    def __init__(self, options: Any = None) -> None:
        self.options = self.Options() if options is None else options

    @abstractmethod
    def spec(self, run: Run) -> Spec:
        """Build the launch spec. Pure: no clock, environment, disk or network."""

    @abstractmethod
    def preflight(self, spec: Spec) -> None:
        """Raise RequestError if the run cannot work here, before anything is started or written."""

    def image(self, spec: Spec, say: Callable[[str], None]) -> dict[str, Any] | None:  # noqa: ARG002 - see the docstring
        """Describe the image of the run, and build it if it is missing; None for a target without images."""
        return None

    @abstractmethod
    def start(self, spec: Spec, folder: RunFolder) -> Handle:
        """Start the run; its processes print into the raw files of the folder."""

    def once(self, spec: Spec, words: list[str], given: bytes, seconds: float, say: Callable[[str], None]) -> bytes:  # noqa: ARG002 - see the docstring
        """Run Python where node 0 would be, with something to read, and return what it prints.

        Raises OSError or RequestError if that fails or takes longer. Not every target can.
        """
        raise RequestError(f"target {self.name} only starts runs; local, compose and ssh can check")

    @abstractmethod
    def cleanup(self, folder: RunFolder) -> None:
        """End and remove what is left of a run, found by its folder alone; safe to call again.

        Another process calls it if the runner was killed (`targets.watchdog`).
        """
