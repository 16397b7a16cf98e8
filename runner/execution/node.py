"""One node of a run that nobody supervises as a whole: what the files of `compose/` start in each container.

It leaves the raw files, and how its torchrun ended. The record is made by `runner collect`, or in memory by
`runner summarize`.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from runner.core import clock
from runner.core.errors import Interrupted, RequestError, RunError
from runner.core.network import is_loopback, route_to, variables_for
from runner.definitions.choices import Selection
from runner.definitions.experiment import Experiment
from runner.definitions.plan import Run, make_plan
from runner.execution.disk import describe_error
from runner.execution.launch import describe_launch, describe_surroundings
from runner.execution.meeting import SAY_SECONDS, Meeting, find
from runner.execution.observer import Observer, guarded
from runner.execution.signals import Interrupts
from runner.execution.supervise import INTERRUPTED, Life, supervise
from runner.records.folder import RunFolder, begin
from runner.records.parse import collect
from runner.records.schema import Launch, NodeExit, Outcome, Record
from runner.targets.base import LaunchSpec, Line, NodeSpec, Note
from runner.targets.local import LocalHandle
from runner.targets.torchrun import node_specs

TARGET = "compose"


def choose(experiment: Experiment, layout: str, device: str, words: list[str]) -> Run:
    """Choose the one cell that is run: the layout, and what `--key value` words say of args and axes.

    An axis that no word names gets its first value that is not skipped.
    """
    only: list[str] = []
    changes: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.partition("=")
        name = key.removeprefix("--")
        if name in ("", key):
            raise RequestError(f"ARGS: '{word}': write args as the program takes them, for example --epochs 1")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        axis = next((axis for axis in (name, name.replace("-", "_")) if axis in experiment.matrix), "")
        (only if axis else changes).append(f"{axis or name}={value}")
    chosen = Selection(device=device, layouts=(layout,), only=tuple(only), changes=tuple(changes), repeat=1)
    return make_plan(experiment, chosen).runs[0]


def run_node(
    run: Run, node: int, master: str, results: Path, observer: Observer, interrupts: Interrupts, run_id: str = ""
) -> int:
    """Start one node's processes, follow them to their end, and leave all that the record needs; return 0 or 1.

    `run_id` is what node 0 has printed, for a node that does not share its results folder.
    """
    nodes = run.cell.layout.nodes
    if run_id and node == 0:
        raise RequestError(f"--run {run_id}: is for the other nodes: the id that node 0 prints")
    if not 0 <= node < nodes:
        raise RequestError(f"--node {node}: layout {run.cell.layout} has the nodes 0 to {nodes - 1}")
    _become_owner_of(results)
    observer = guarded(observer)
    specs = node_specs(run.cell, master, run.device)
    if nodes > 1:
        specs[node] = on_the_route(specs[node], master, os.environ, observer.note)
    launch = describe_launch(run, TARGET, specs, describe_surroundings(run)[0])
    launch.by_hand = True
    spec = LaunchSpec(specs, str(run.experiment.root), run.device)
    what = f"{launch.definition_sha256} {launch.argv} {launch.layout} {launch.code.get('sources_sha256')}"
    work = hashlib.sha256(what.encode()).hexdigest()
    if node and not run_id:
        run_id = _id_of_node_0(results, work, node, observer, interrupts)
    launch.id = run_id or launch.id
    folder = RunFolder(results / launch.experiment / launch.id)
    if not folder.path.is_dir():
        folder = begin(results, launch, spec.text(), "")
    with ExitStack() as stack:
        stack.enter_context(folder.held())
        observer.begin(1, 1, run, folder.path)
        meeting = Meeting(results, work, folder, nodes) if node == 0 and nodes > 1 else None
        if meeting:
            stack.callback(meeting.end)
            observer.note(f"run {launch.id}; nodes that do not see {results} need --run {launch.id}")
        life = _Life(folder, launch, spec, node, meeting)
        record = supervise(life, observer, interrupts)
    if node == 0 or life.code != 0:
        observer.end(run, record, folder.path)
    if record.status == INTERRUPTED:
        raise Interrupted
    return int(life.code != 0)


def _id_of_node_0(results: Path, work: str, node: int, observer: Observer, interrupts: Interrupts) -> str:
    try:
        with interrupts.raising():
            return find(results, work, node, observer.note)
    except KeyboardInterrupt:
        raise Interrupted from None
    except OSError as error:
        raise RunError(describe_error(error, results)) from None


def on_the_route(spec: NodeSpec, master: str, environment: Mapping[str, str], say: Callable[[str], None]) -> NodeSpec:
    """Let Gloo and NCCL use the interface that reaches the master, unless a person has chosen one.

    By themselves Gloo uses the address of the own host name, which Debian gives to the loopback interface, and NCCL the
    first interface that is up, for example one of a virtual machine.
    """
    route = route_to(master)
    if route is None or is_loopback(route.local):
        if route and master != "localhost" and not is_loopback(master):
            say(f"--master {master} is {route.local} on this machine, where no other machine comes: name its address")
        return spec
    chosen = {name: value for name, value in variables_for(route.interface).items() if not environment.get(name)}
    if chosen:
        words = " ".join(f"{name}={value}" for name, value in chosen.items())
        say(f"{route.interface} reaches {master} from {route.local}: {words}")
    return replace(spec, env={**spec.env, **chosen})


class _Life(Life):
    """One node's torchrun; other nodes of the run may live on the same machine."""

    def __init__(self, folder: RunFolder, launch: Launch, spec: LaunchSpec, node: int, meeting: Meeting | None) -> None:
        super().__init__(folder, launch)
        self.nodes, self.guard = (node,), ("local", [])
        self._spec, self._node, self._meeting = spec, node, meeting
        self.code: int | None = 1

    def start(self) -> LocalHandle:
        mark = f"{self.folder.path.name}/node{self._node}"
        handle = _Handle({self._node: self._spec.nodes[self._node]}, self._spec.cwd, self.folder, mark)
        handle.meeting = self._meeting
        return handle

    def keep(self, outcome: Outcome) -> Record:
        ended = outcome.exits[0] if outcome.exits else NodeExit(self._node, stopped=True)
        ended.stopped_because, self.code = outcome.stopped_because, ended.code
        if self._meeting and not self._meeting.is_over and ended.code != 0:  # no process here has printed anything
            ended.why = self._meeting.missing() or None
        outcome.exits = [ended]
        self.folder.keep_exit(ended)
        return collect(self.folder, self.launch, outcome)


class _Handle(LocalHandle):
    """Node 0 says who is missing until its processes print, for they start when all nodes are there."""

    meeting: Meeting | None = None
    _waited = 0.0

    @property
    def waited_seconds(self) -> float:
        """The time in which nodes were missing."""
        return self._waited

    def lines(self) -> Iterator[Line | Note | None]:
        began = said = clock.monotonic()
        for line in super().lines():
            if self.meeting and not self.meeting.is_over:
                now = clock.monotonic()
                self._waited = now - began
                if isinstance(line, Line):
                    self.meeting.end()
                elif now - said > SAY_SECONDS:
                    said = now
                    if missing := self.meeting.missing():
                        yield Note(missing)
            yield line


def _become_owner_of(results: Path) -> None:
    """Go on as the user who owns the results folder, so that the files are theirs; only root can and must."""
    try:
        owner = results.stat()
    except OSError as error:
        raise RequestError(f"{results}: {error.strerror}: make the folder and mount it") from None
    if os.geteuid() == 0 and owner.st_uid:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
    if not os.access(results, os.W_OK):
        why = f"user {os.geteuid()} cannot write in it"
        raise RequestError(f"{results} belongs to user {owner.st_uid} and {why}: set KIT_UID and KIT_GID to its owner")
