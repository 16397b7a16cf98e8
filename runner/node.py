"""One node of a run that nobody follows from outside: what the files of `compose/` start in each container.

It leaves the raw files, and how its torchrun ended; whoever summarises the results collects them afterwards.
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING

from runner import environment
from runner.collect import collect
from runner.errors import KitError, RequestError
from runner.execute import ctrl_c_raises, ctrl_c_waits, describe_launch, describe_surroundings, follow, utc_now
from runner.meeting import host, join
from runner.plan import make_plan
from runner.record import RunFolder, begin, new_id
from runner.schema import NodeExit, Outcome
from runner.targets.base import Request
from runner.targets.local import LocalExecution
from runner.targets.torchrun import node_requests

if TYPE_CHECKING:
    from pathlib import Path

    from runner.console import Screen
    from runner.definition import Experiment
    from runner.plan import Run
    from runner.schema import Launch

TARGET = "compose"


def choose(experiment: Experiment, layout: str, device: str, words: list[str]) -> Run:
    """Choose the one cell that is run: the layout, and what `--key value` words say of args and axes.

    Of an axis that nothing is said of, its first value that is not skipped is taken.
    """
    only: list[str] = []
    changes: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.partition("=")
        name = key.removeprefix("--").replace("-", "_")
        if not key.startswith("--") or not name:
            msg = f"ARGS: '{word}' is no arg: write them as the program takes them, as --epochs 1"
            raise RequestError(msg)
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        (only if name in experiment.matrix else changes).append(f"{name}={value}")
    return make_plan(experiment, device=device, layouts=[layout], only=only, changes=changes, repeat=1).runs[0]


def run_node(run: Run, node: int, master: str, results: Path, screen: Screen) -> int:
    """Start one node's processes, follow them to their end, and leave everything for the collection; return 0 or 1."""
    _be_owner_of(results)
    cell = run.cell
    requests = node_requests(cell, master)
    if not 0 <= node < cell.layout.nodes:
        msg = f"--node {node}: layout {cell.layout} has the nodes 0 to {cell.layout.nodes - 1}"
        raise RequestError(msg)
    code, _ = environment.describe_code(run.experiment.root)
    launch = describe_launch(run, TARGET, requests, describe_surroundings(code))
    launch.by_hand = True
    request = Request(requests, str(run.experiment.root), {"device": run.device})
    with ctrl_c_raises():
        folder, refused = _meet(launch, request, node, master, results, screen)
        with folder.held():
            screen.begin(1, 1, run, folder.path)
            alone = NodeExit(node, 1, stopped_because=None if isinstance(refused, KitError) else "interrupted")
            ended = alone if refused else _follow(run, request, node, folder, screen)
            folder.keep_exit(ended)
            if refused:
                raise refused
    if node == 0 or ended.code != 0:
        outcome = Outcome(ended=utc_now(), wall_seconds=0, exits=[ended], stopped_because=ended.stopped_because)
        record = collect(folder, launch, outcome)
        screen.end(run, record, folder.path)
    return 0 if ended.code == 0 else 1


def _meet(
    launch: Launch, request: Request, node: int, master: str, results: Path, screen: Screen
) -> tuple[RunFolder, KitError | KeyboardInterrupt | None]:
    """Agree with the other nodes on the run's folder; a node that is left alone keeps one of its own, and says why."""
    launch.id = new_id(TARGET)
    what = f"{launch.definition_sha256} {launch.argv} {launch.layout} {launch.code.get('sources_sha256')}"
    work = hashlib.sha256(what.encode()).hexdigest()
    refused: KitError | KeyboardInterrupt | None = None
    if node > 0:
        try:
            launch.id = join(master, node, work, screen.note)
        except KitError as error:
            refused = error
    folder = RunFolder(results / launch.experiment / launch.id)
    if node == 0 or refused or not folder.path.is_dir():
        folder = begin(results, launch, request.text(), "")
    if node == 0:
        try:
            host(launch.id, work, len(request.nodes), screen.note)
        except (KitError, KeyboardInterrupt) as error:
            refused = error
    if refused:
        with folder.open_agent(node) as output:
            output.write(f"error: {refused or 'interrupted'}\n".encode())
    return folder, refused


def _follow(run: Run, request: Request, node: int, folder: RunFolder, screen: Screen) -> NodeExit:
    """Run this node's torchrun to its end, its time-out, or a signal."""
    execution = None
    because = None
    try:
        execution = LocalExecution({node: request.nodes[node]}, request.cwd, folder, f"{folder.path.name}/node{node}")
        if not follow(execution, time.monotonic() + run.experiment.timeout_seconds, screen):
            because = "timed_out"
    except KeyboardInterrupt:
        because = "interrupted"
    with ctrl_c_waits():
        if because and execution:
            screen.stopping(because)
            execution.stop()
        ended = execution.exits[0] if execution else NodeExit(node, stopped=True)
        ended.stopped_because = because
    return ended


def _be_owner_of(results: Path) -> None:
    """Go on as the user who owns the results folder, so that the files are theirs; only root can and must."""
    try:
        owner = results.stat()
    except OSError as error:
        msg = f"{results}: {error.strerror}: make the folder and mount it"
        raise RequestError(msg) from None
    if os.geteuid() == 0 and owner.st_uid:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
    if not os.access(results, os.W_OK):
        own = f"user {os.geteuid()} cannot write in it"
        msg = f"{results} belongs to user {owner.st_uid} and {own}: set KIT_UID and KIT_GID to its owner"
        raise RequestError(msg)
