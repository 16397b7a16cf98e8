"""The base classes of targets. A target is a way to run: as local processes, containers, pods or batch jobs.

    Run --spec()--> LaunchSpec --start()--> Handle --lines()--> Line ... --exits--> NodeExit of each node

Targets do not parse output, and write only into the run's raw files. `targets/__init__.py` registers all targets.
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
"""Number that a container's exit code adds to a signal's number."""
BEYOND_SECONDS = 600
"""A cluster job's time-out exceeds the run's by this time, in case the runner is killed."""
_MOST_AT_ONCE = 16


class Line(NamedTuple):
    """One line of a process's output, without the newline."""

    node: int
    local_rank: int
    text: bytes


@dataclass(frozen=True)
class Note:
    """A message shown beside the progress, for example why a pod has not started."""

    text: str


@dataclass(frozen=True)
class NodeSpec:
    """The command for one node, and variables to add to its environment."""

    argv: list[str]
    env: dict[str, str]
    processes: int


@dataclass(frozen=True)
class LaunchSpec:
    """A run that is ready to start. Equal runs with equal options give equal specs."""

    nodes: list[NodeSpec]
    cwd: str
    device: str
    options: dict[str, Any] = field(default_factory=dict)
    file: ClassVar[str] = "request.json"
    """Name of the spec's file in `request/`."""

    def text(self, run_id: str = "") -> str:  # noqa: ARG002
        """Return the text of `file`. An empty `run_id` gives the text that `--dry-run` prints."""
        return to_json(asdict(self))


class FollowedNode:
    """The launcher of one node, and the thread that follows the launcher."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.stopped = False
        """Whether the runner ended the launcher."""
        self.failure: OSError | None = None
        """Why output can no longer be saved, for example a full disk."""
        self.notes: deque[str] = deque()
        self._exit: NodeExit | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_begun(self) -> bool:
        """Whether the launcher was started."""
        return self._thread is not None

    @property
    def exit(self) -> NodeExit | None:
        """How the launcher ended. None until the launcher has ended and its output is saved."""
        return self._exit

    @property
    def ended(self) -> bool:
        """Whether the launcher has ended."""
        return self.exit is not None

    @property
    def failed(self) -> bool:
        """Whether the launcher ended with anything but exit code 0."""
        return self.exit is not None and self.exit.code != 0

    def begin(self) -> None:
        """Start the thread that follows the launcher."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def follow(self) -> NodeExit:
        """Save the launcher's output, and return how the launcher ended. Called in the thread."""
        raise NotImplementedError

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` for the launcher to end."""
        if self.is_begun:
            self._over.wait(seconds)  # join(), if interrupted, marks the thread as ended (bpo-45274)

    def describe(self) -> NodeExit:
        """Return how the launcher ended. If it never started or still runs, code and signal are None."""
        return self.exit or NodeExit(self.number, stopped=True)

    def idle(self) -> NodeView | None:
        """Return a view that says why nothing runs on the node, or None if something may run."""
        return None

    def look(self, *, abort: bool) -> NodeView:
        """Return a view of the node's processes; see `Handle.look`."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self._exit = self.follow()
        finally:
            self._over.set()


def exit_of(code: object, signalled: int = 0) -> tuple[int | None, str | None]:
    """Return an exit code as (code, None), or (None, signal name) if a signal ended the process.

    `subprocess` reports signal N as code -N, a container as code N + `signalled`.
    """
    if not isinstance(code, int):
        return None, None
    with suppress(ValueError):
        return None, signal.Signals(code - signalled if signalled else -code).name
    return code if code >= 0 else None, None


class Handle(ABC):
    """A run from its start to its end.

    `lines` starts the processes. By that time the caller has the handle, and can stop every process after Ctrl-C.
    """

    nodes: Sequence[FollowedNode] = ()
    """The nodes that `exits`, `idle` and `look` report on."""
    left = ""
    """Message about objects that could not be removed, and how to remove them by hand."""

    @property
    def waited_seconds(self) -> float:
        """Seconds spent in a queue, which do not count as run time."""
        return 0.0

    @property
    def exits(self) -> list[NodeExit]:
        """How each launcher ended. The list is complete once `lines` or `stop` has returned."""
        exits = self._exits()
        for ended in exits:
            ended.why = ended.why or self.left or None
        return exits

    def _exits(self) -> list[NodeExit]:
        return [node.describe() for node in self.nodes]

    @abstractmethod
    def lines(self) -> Iterator[Line | Note | None]:
        """Yield output until all processes have ended. In between, yield None so that callers can check deadlines.

        Raises OSError if the run cannot be started or followed.
        """

    def idle(self) -> list[NodeView]:
        """For each node on which nothing runs, return a view with the reason. Sends at most one request per node.

        Called from another thread; never raises.
        """
        return [view for node in self.nodes if (view := node.idle())]

    def look(self, *, abort: bool = False) -> list[NodeView]:
        """Return a view of each node's processes.

        Called from another thread; never raises. With `abort`, a rank that cannot report its stack otherwise gets
        SIGABRT, prints the stack and ends.
        """
        idle = {view.node: view for view in self.idle()}
        running = [node for node in self.nodes if node.number not in idle]
        with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
            seen = list(pool.map(lambda node: node.look(abort=abort), running))
        return sorted([*seen, *idle.values()], key=lambda view: view.node)

    @abstractmethod
    def stop(self) -> None:
        """End all processes with SIGTERM, and with SIGKILL after the grace period. Safe to call again.

        Never raises. If objects could not be removed, `exits` names them.
        """


def option(help_text: str, default: Any = "", axis: str = "") -> Any:
    """Declare an option as a field of a target's dataclass `Options`.

    Args:
        help_text: description shown by `runner targets`.
        default: default value.
        axis: kind of axis, if the option affects run times. Such an option becomes a column of tables.
    """
    return field(default=default, metadata={"help": help_text, **({"axis": axis} if axis else {})})


def axes_of(options: Any) -> dict[str, str]:
    """Map the name of each option that affects run times to its kind of axis."""
    return {option.name: option.metadata["axis"] for option in fields(options) if "axis" in option.metadata}


def type_name(kind: Any) -> str:
    """Return the name of an option's type, for example `text` or `pytorchjob|indexed`."""
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    return {str: "text", int: "whole number", float: "number", bool: "true|false"}[kind]


@dataclass(frozen=True)
class NoOptions:
    """The options of a target that takes none."""


Spec = TypeVar("Spec", bound=LaunchSpec)


class Target(ABC, Generic[Spec]):
    """A way to run; `targets.load` creates one from the command line's options."""

    name: ClassVar[str]
    summary: ClassVar[str]
    Options: ClassVar[type] = NoOptions
    """A frozen dataclass whose fields are made by `option`."""
    observes: ClassVar[bool] = False
    """Whether unedited scripts are observed from inside (trainkit/observer)."""

    def __init__(self, options: Any = None) -> None:
        self.options = self.Options() if options is None else options

    @abstractmethod
    def spec(self, run: Run) -> Spec:
        """Return the launch spec of a run. Uses no clock, environment, disk or network."""

    @abstractmethod
    def preflight(self, spec: Spec) -> None:
        """Raise RequestError if the run cannot work here; called before anything starts."""

    def image(self, spec: Spec, say: Callable[[str], None]) -> dict[str, Any] | None:  # noqa: ARG002
        """Return a description of the run's image. Builds a missing image. Returns None if the target has no images."""
        return None

    @abstractmethod
    def start(self, spec: Spec, folder: RunFolder) -> Handle:
        """Return a handle whose `lines` start the run. The processes print into the folder's raw files."""

    def once(self, spec: Spec, words: list[str], given: bytes, seconds: float, say: Callable[[str], None]) -> bytes:  # noqa: ARG002
        """Run Python with arguments `words` and stdin `given` where node 0 would run. Return the output.

        Raises OSError or RequestError if the target cannot do this, Python does not start, or `seconds` have passed.
        """
        raise RequestError(f"target {self.name} cannot run checks; use local, compose or ssh")

    @abstractmethod
    def cleanup(self, folder: RunFolder) -> None:
        """End and remove everything that is left of a run. Needs only the run's folder. Safe to call again.

        If the runner was killed, another process calls this (`targets.watchdog`).
        """
