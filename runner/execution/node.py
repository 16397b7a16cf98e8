"""Run one node of a run without a supervisor of all nodes, as each container of `compose/` does.

The last node to end makes the record. If a node was killed or the nodes share no results folder, `runner collect` makes
the record.

Nodes agree on the run id through the file `.nodes/<work>` in the shared results folder, where `work` is a hash of the
planned launch. Node 0 writes the id into the file, and removes the file when all nodes have joined or node 0 has ended.
Other nodes take the id if the file is younger than `YOUNG_SECONDS`. A node that waits makes the file
`.nodes/<work>.node<number>`, from which node 0 learns the node's work. The ages of files come from the disk's clock,
because the machines' clocks may differ.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from runner.core import clock
from runner.core.errors import Interrupted, RequestError, RunError
from runner.core.network import is_loopback, route_to, variables_for
from runner.core.text import listed
from runner.definitions.choices import Selection
from runner.definitions.experiment import Experiment
from runner.definitions.plan import Run, make_plan
from runner.execution.launch import describe_launch, describe_surroundings
from runner.execution.observer import Observer, guarded
from runner.execution.run import INTERRUPTED, Life, supervise
from runner.execution.signals import Interrupts
from runner.records.folder import RunFolder, begin
from runner.records.parse import collect, finalize_ended
from runner.records.schema import Launch, Outcome, Record
from runner.targets.base import LaunchSpec, Line, NodeSpec, Note
from runner.targets.local import Local, LocalHandle
from runner.targets.torchrun import node_specs
from trainkit.files import write_file

TARGET = "compose"
YOUNG_SECONDS = 120.0
SAY_SECONDS = 10.0
_POLL_SECONDS = 0.5


def choose(experiment: Experiment, layout: str, device: str, words: list[str]) -> Run:
    """Return the run of the layout with the args and axes that `--key value` words set.

    An axis that no word sets gets its first value that is not skipped. Raises RequestError for an invalid word.
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
    """Start one node's processes, follow them to the end and keep their output. Return the exit code, 0 or 1.

    A node without access to node 0's results folder needs `run_id`, the id that node 0 prints.
    """
    nodes = run.cell.layout.nodes
    if not 0 <= node < nodes:
        raise RequestError(f"--node {node}: layout {run.cell.layout} has the nodes 0 to {nodes - 1}")
    _become_owner_of(results)
    observer = guarded(observer)
    specs = node_specs(run.cell, master, run.device)
    if nodes > 1:
        specs[node] = on_the_route(specs[node], master, os.environ, observer.note)
    launch = describe_launch(run, TARGET, specs, describe_surroundings(run)[0])
    launch.by_hand = True
    what = f"{launch.definition_sha256} {launch.argv} {launch.layout} {launch.code.get('sources_sha256')}"
    work = hashlib.sha256(what.encode()).hexdigest()
    if node and not run_id:
        with interrupts.ending():
            run_id = find(results, work, node, observer.note)
    launch.id = run_id or launch.id
    folder = RunFolder(results / launch.experiment / launch.id)
    spec = LaunchSpec(specs, str(run.experiment.root), run.device)
    if not folder.path.is_dir():
        folder = begin(results, launch, spec.text(), "")
    observer.begin(1, 1, run, folder.path)
    handle = _Handle({node: specs[node]}, spec.cwd, folder, f"{folder.path.name}/node{node}")
    if node == 0 and nodes > 1:
        handle.meeting = Meeting(results, work, folder, nodes)
        observer.note(f"run {launch.id}; nodes without access to {results} need --run {launch.id}")
    try:
        life = Life(folder, launch, lambda: handle, partial(_keep, handle), is_one_node=True, target=Local())
        record = supervise(life, observer, interrupts)
    finally:
        if handle.meeting:
            handle.meeting.end()
    failed = not record.outcome or [end.code for end in record.outcome.exits] != [0]
    if len(folder.exits(folder.raw_files(run.cell.layout), {})) == nodes:
        # Nodes may end together. If another node holds the run's lock, that node makes the record.
        with suppress(BlockingIOError), folder.held_alone():
            record = folder.finished() or finalize_ended(folder)
    if node == 0 or failed:
        observer.end(run, record, folder.path)
    if record.status == INTERRUPTED:
        raise Interrupted
    return int(failed)


def on_the_route(spec: NodeSpec, master: str, environment: Mapping[str, str], say: Callable[[str], None]) -> NodeSpec:
    """Make Gloo and NCCL use the interface that reaches the master, unless the environment names one.

    By default, Gloo takes the address of the host name, which is a loopback address on Debian. NCCL takes the first
    interface that is up, which may belong to a virtual machine.
    """
    route = route_to(master)
    if route is None or is_loopback(route.local):
        if route and master != "localhost" and not is_loopback(master):
            say(f"--master {master} is {route.local} here, which other machines cannot reach: use its network address")
        return spec
    chosen = {name: value for name, value in variables_for(route.interface).items() if not environment.get(name)}
    if chosen:
        words = " ".join(f"{name}={value}" for name, value in chosen.items())
        say(f"{route.interface} reaches {master} from {route.local}: {words}")
    return replace(spec, env={**spec.env, **chosen})


class Meeting:
    """On node 0, publishes the run id and waits for the other nodes to join."""

    is_over = False

    def __init__(self, results: Path, work: str, folder: RunFolder, nodes: int) -> None:
        self._folder, self._nodes, self._own = folder, nodes, _place(results) / work
        write_file(self._own, folder.path.name.encode())
        self._began = self._own.stat().st_mtime

    def missing(self) -> str:
        """Describe the nodes that have not joined, or that wait for other work. Return "" once all have joined."""
        nodes = range(1, 1 if self.is_over else self._nodes)
        absent = [node for node in nodes if not self._folder.agent(node).exists()]
        others = [node for node in absent if self._has_other_work(node)]
        said = []
        if others:
            said.append(f"node {listed(others)} has another experiment, args, layout or programs than node 0")
        if rest := [node for node in absent if node not in others]:
            elsewhere = f"without access to this results folder it needs --run {self._folder.path.name}"
            said.append(f"node {listed(rest)} has not joined: start it with the --master of node 0; {elsewhere}")
        return "; ".join(said)

    def end(self) -> None:
        """Stop publishing the run id. A second call does nothing."""
        self.is_over = True
        with suppress(OSError):
            if self._own.read_text() == self._folder.path.name:  # otherwise the file is a later run's
                self._own.unlink()

    def _has_other_work(self, node: int) -> bool:
        waiting = self._own.parent.glob(f"*.node{node}")
        with suppress(FileNotFoundError):  # the node has stopped waiting
            return any(path.stem != self._own.name and path.stat().st_mtime > self._began for path in waiting)
        return False


def find(results: Path, work: str, node: int, say: Callable[[str], None], seconds: float = YOUNG_SECONDS) -> str:
    """Wait until node 0 publishes a run with the hash `work`. Return the run's id. Raises RunError after `seconds`."""
    place = _place(results)
    own, shared = place / f"{work}.node{node}", place / work
    began = said = clock.monotonic()
    try:
        while True:
            own.touch()
            with suppress(FileNotFoundError):
                if own.stat().st_mtime - shared.stat().st_mtime < YOUNG_SECONDS:
                    return shared.read_text()
            now = clock.monotonic()
            if now - began > seconds:
                why = "start it with the same experiment, args, layout and programs"
                raise RunError(f"node 0 of this run did not appear in {place} within {seconds:g} s: {why}")
            if now - said > SAY_SECONDS:
                said = now
                say(f"waiting for node 0 in {place}; without a shared folder, use the --run ID that node 0 prints")
            clock.sleep(_POLL_SECONDS)
    finally:
        own.unlink(missing_ok=True)


def _place(results: Path) -> Path:
    place = results / ".nodes"
    place.mkdir(exist_ok=True)
    return place


class _Handle(LocalHandle):
    """The handle of one node. Node 0's handle reports missing nodes until ranks of node 0 print."""

    meeting: Meeting | None = None
    waited_seconds = 0.0

    def lines(self) -> Iterator[Line | Note | None]:
        began = said = clock.monotonic()
        for line in super().lines():
            now = clock.monotonic()
            if self.meeting and isinstance(line, Line):
                self.meeting.end()
            elif self.meeting and not self.meeting.is_over:
                self.waited_seconds = now - began
                if now - said > SAY_SECONDS:
                    said = now
                    if missing := self.meeting.missing():
                        yield Note(missing)
            yield line


def _keep(handle: _Handle, folder: RunFolder, launch: Launch, outcome: Outcome) -> Record:
    ended = outcome.exits[0] if outcome.exits else handle.exits[0]
    ended.stopped_because, outcome.exits = outcome.stopped_because, [ended]
    if ended.code != 0 and handle.meeting:
        ended.why = handle.meeting.missing() or ended.why
    folder.keep_exit(ended)
    return collect(folder, launch, outcome)


def _become_owner_of(results: Path) -> None:
    """If this process runs as root, switch to the owner of the results folder, so that new files get the same owner."""
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
        raise RequestError(f"{results} belongs to user {owner.st_uid}, and {why}: set KIT_UID and KIT_GID to its owner")
