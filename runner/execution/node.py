"""One node of a run that nobody supervises as a whole: what the files of `compose/` start in each container.

It leaves the raw files, and how its torchrun ended. The record is made by `runner collect`, or in memory by
`runner summarize`.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from runner.core import clock
from runner.core.errors import Interrupted, KitError, RequestError, RunError
from runner.core.network import is_loopback, route_to, variables_for
from runner.core.text import one_line
from runner.definitions.choices import Selection
from runner.definitions.experiment import Experiment
from runner.definitions.plan import Run, make_plan
from runner.execution.disk import describe_error
from runner.execution.launch import describe_launch, describe_surroundings
from runner.execution.meeting import SAY_SECONDS, Meeting, find
from runner.execution.observer import Observer, guarded
from runner.execution.signals import Interrupts
from runner.execution.supervise import INTERRUPTED, Life, supervise
from runner.records.folder import RunFolder, begin, new_id
from runner.records.parse import collect
from runner.records.schema import Launch, NodeExit, Outcome, Record
from runner.targets.base import LaunchSpec, Line, NodeSpec, Note
from runner.targets.local import LocalHandle
from runner.targets.torchrun import node_specs

TARGET = "compose"
_RUN = re.compile(r"\d{8}T\d{6}Z-[a-z0-9_]{1,32}-[0-9a-f]{8}", re.ASCII)


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
        if not key.startswith("--") or not name:
            raise RequestError(
                f"ARGS: '{word}' is no arg: write them as the program takes them, for example --epochs 1"
            )
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        axis = name if name in experiment.matrix else name.replace("-", "_")
        if axis in experiment.matrix:
            only.append(f"{axis}={value}")
        else:
            changes.append(f"{name}={value}")
    chosen = Selection(device=device, layouts=[layout], only=only, changes=changes, repeat=1)
    return make_plan(experiment, chosen).runs[0]


def run_node(
    run: Run, node: int, master: str, results: Path, observer: Observer, interrupts: Interrupts, run_id: str = ""
) -> int:
    """Start one node's processes, follow them to their end, and leave all that the record needs; return 0 or 1.

    `run_id` is what node 0 has printed, for a node that does not share its results folder.
    """
    if run_id and (node == 0 or not _RUN.fullmatch(run_id)):
        raise RequestError(f"--run {one_line(run_id, 80)}: is for the other nodes: the id that node 0 prints")
    _become_owner_of(results)
    observer = guarded(observer)
    specs = node_specs(run.cell, master, run.device)
    if not 0 <= node < run.cell.layout.nodes:
        raise RequestError(f"--node {node}: layout {run.cell.layout} has the nodes 0 to {run.cell.layout.nodes - 1}")
    if len(specs) > 1:
        specs[node] = on_the_route(specs[node], master, os.environ, observer.note)
    launch = describe_launch(run, TARGET, specs, describe_surroundings(run)[0])
    launch.by_hand = True
    spec = LaunchSpec(specs, str(run.experiment.root), run.device)
    what = f"{launch.definition_sha256} {launch.argv} {launch.layout} {launch.code.get('sources_sha256')}"
    work = hashlib.sha256(what.encode()).hexdigest()
    folder, refused = _find_run(launch, spec.text(), work, node, results, observer, interrupts, run_id)
    with folder.held():
        observer.begin(1, 1, run, folder.path)
        if refused:
            because = INTERRUPTED if isinstance(refused, Interrupted) else None
            folder.keep_exit(NodeExit(node, 1, stopped_because=because))
            raise refused
        meeting = None
        if node == 0 and len(specs) > 1:
            try:
                meeting = Meeting(results, work, folder, len(specs))
            except OSError as error:
                raise RunError(describe_error(error, folder.path)) from None
            observer.note(f"run {launch.id}; nodes that do not see {results} need --run {launch.id}")
        try:
            record = supervise(_life(spec, node, folder, launch, meeting), folder, launch, observer, interrupts)
            if meeting and not meeting.is_over and record.status == INTERRUPTED:
                raise Interrupted
        finally:
            if meeting:
                meeting.end()
    ended = record.outcome.exits[0] if record.outcome else NodeExit(node, 1)
    if node == 0 or ended.code != 0:
        observer.end(run, record, folder.path)
    return 0 if ended.code == 0 else 1


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


class _Node(LocalHandle):
    """One node's torchrun; node 0 says who is missing until its processes print, for they start when all are there."""

    meeting: Meeting | None = None
    _waited = 0.0

    @property
    def waited_seconds(self) -> float:
        """The time in which nodes were missing."""
        return self._waited

    def lines(self) -> Iterator[Line | Note | None]:
        """Yield what is printed."""
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


def _life(spec: LaunchSpec, node: int, folder: RunFolder, launch: Launch, meeting: Meeting | None) -> Life:
    """Describe the life of one node's torchrun; other nodes of the run may live on the same machine."""

    def start() -> LocalHandle:
        handle = _Node({node: spec.nodes[node]}, spec.cwd, folder, f"{folder.path.name}/node{node}")
        handle.meeting = meeting
        return handle

    def keep(outcome: Outcome) -> Record:
        ended = outcome.exits[0] if outcome.exits else NodeExit(node, stopped=True)
        ended.stopped_because = outcome.stopped_because
        if meeting and not meeting.is_over and ended.code != 0:  # no process of this node has printed anything
            ended.why = meeting.missing() or None
        outcome.exits = [ended]
        folder.keep_exit(ended)
        return collect(folder, launch, outcome)

    return Life(
        start=start,
        stop=lambda handle: handle.stop() if handle else None,
        keep=keep,
        timeout_seconds=launch.timeout_seconds,
        nodes=(node,),
        watched_as=("local", []),
    )


def _find_run(
    launch: Launch,
    request: str,
    work: str,
    node: int,
    results: Path,
    observer: Observer,
    interrupts: Interrupts,
    run_id: str,
) -> tuple[RunFolder, KitError | None]:
    """Make the run's folder as node 0, or find it as another node.

    A node that is left alone or interrupted keeps a folder of its own; the second part says why.
    """
    launch.id = run_id or new_id(TARGET)
    refused: KitError | None = None
    if node and not run_id:
        try:
            with interrupts.raising():
                launch.id = find(results, work, node, observer.note)
        except KeyboardInterrupt:
            refused = Interrupted()
        except OSError as error:
            refused = RunError(f"{results}: {error.strerror}")
        except KitError as error:
            refused = error
    folder = RunFolder(results / launch.experiment / launch.id)
    if not folder.path.is_dir():
        folder = begin(results, launch, request, "")
    if refused:
        with folder.open_agent(node) as output:
            output.write(f"error: {refused}\n".encode())
    return folder, refused


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
        own = f"user {os.geteuid()} cannot write in it"
        raise RequestError(f"{results} belongs to user {owner.st_uid} and {own}: set KIT_UID and KIT_GID to its owner")
