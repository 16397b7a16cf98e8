"""One node of a run that nobody supervises as a whole: what the files of `compose/` start in each container.

It leaves the raw files, and how its torchrun ended. The record is made by `runner collect`, or in memory by
`runner summarize`.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from runner.core.errors import Interrupted, KitError, RequestError
from runner.core.network import is_loopback, route_to, variables_for
from runner.definitions.experiment import Experiment
from runner.definitions.plan import Run, make_plan
from runner.execution import handshake
from runner.execution.launch import describe_launch, describe_surroundings
from runner.execution.observer import Observer, guarded
from runner.execution.signals import Interrupts
from runner.execution.supervise import INTERRUPTED, Life, supervise
from runner.records.folder import RunFolder, begin, new_id
from runner.records.parse import collect
from runner.records.schema import Launch, NodeExit, Outcome, Record
from runner.targets.base import LaunchSpec, NodeSpec
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
        name = key.removeprefix("--").replace("-", "_")
        if not key.startswith("--") or not name:
            raise RequestError(
                f"ARGS: '{word}' is no arg: write them as the program takes them, for example --epochs 1"
            )
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        (only if name in experiment.matrix else changes).append(f"{name}={value}")
    return make_plan(experiment, device=device, layouts=[layout], only=only, changes=changes, repeat=1).runs[0]


def run_node(run: Run, node: int, master: str, results: Path, observer: Observer, interrupts: Interrupts) -> int:
    """Start one node's processes, follow them to their end, and leave all that the record needs; return 0 or 1."""
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
    folder, refused = _rendezvous(launch, spec.text(), len(specs), node, master, results, observer, interrupts)
    with folder.held():
        observer.begin(1, 1, run, folder.path)
        if refused:
            because = INTERRUPTED if isinstance(refused, Interrupted) else None
            folder.keep_exit(NodeExit(node, 1, stopped_because=because))
            raise refused
        record = supervise(_life(spec, node, folder, launch), folder, launch, observer, interrupts)
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


def _life(spec: LaunchSpec, node: int, folder: RunFolder, launch: Launch) -> Life:
    """Describe the life of one node's torchrun; other nodes of the run may live on the same machine."""

    def keep(outcome: Outcome) -> Record:
        ended = outcome.exits[0] if outcome.exits else NodeExit(node, stopped=True)
        ended.stopped_because = outcome.stopped_because
        outcome.exits = [ended]
        folder.keep_exit(ended)
        return collect(folder, launch, outcome)

    return Life(
        start=lambda: LocalHandle({node: spec.nodes[node]}, spec.cwd, folder, f"{folder.path.name}/node{node}"),
        stop=lambda handle: handle.stop() if handle else None,
        keep=keep,
        timeout_seconds=launch.timeout_seconds,
        nodes=(node,),
        watched_as=("local", []),
    )


def _rendezvous(
    launch: Launch,
    request: str,
    nodes: int,
    node: int,
    master: str,
    results: Path,
    observer: Observer,
    interrupts: Interrupts,
) -> tuple[RunFolder, KitError | None]:
    """Agree with the other nodes on the run's folder.

    A node that is left alone, refused or interrupted keeps a folder of its own; the second part says why.
    """
    launch.id = new_id(TARGET)
    what = f"{launch.definition_sha256} {launch.argv} {launch.layout} {launch.code.get('sources_sha256')}"
    work = hashlib.sha256(what.encode()).hexdigest()
    secret = handshake.read_secret(os.environ)
    refused: KitError | None = None
    folder = begin(results, launch, request, "") if node == 0 else None
    try:
        with interrupts.raising():
            if node == 0:
                handshake.host(launch.id, work, nodes, master, secret, observer.note)
            else:
                launch.id = handshake.join(master, node, work, secret, observer.note)
    except KeyboardInterrupt:
        refused = Interrupted()
    except KitError as error:
        refused = error
    folder = folder or RunFolder(results / launch.experiment / launch.id)
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
