"""Target `local`: one torchrun agent for each node of the layout, all on this machine."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from runner.environment import gpus
from runner.errors import RequestError
from runner.schema import NodeExit
from runner.targets.base import Line, Request
from runner.targets.children import die_with_parent
from runner.targets.tail import Tail
from runner.targets.torchrun import device_ids, node_requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.console import Screen
    from runner.plan import Run
    from runner.record import RunFolder
    from runner.targets.base import NodeRequest

MARK = "KIT_RUN_ID"
POLL_SECONDS = 0.1
QUIET_POLLS = 5
GRACE_SECONDS = 10.0
# What the command torchrun is, for the Python that the runner itself runs on.
_TORCHRUN = (sys.executable, "-m", "torch.distributed.run")


def request(run: Run, options: dict[str, str]) -> Request:
    """Build one torchrun command and environment a node; the port and the log folder are chosen at the start."""
    nodes = node_requests(run.cell, "127.0.0.1")
    for node, ids in zip(nodes, device_ids(run.cell), strict=True):
        del node.env["PET_MASTER_PORT"]
        if run.device == "cuda":
            node.env["CUDA_VISIBLE_DEVICES"] = ",".join(ids)
    return Request(nodes, str(run.experiment.root), {"device": run.device, **options})


def check(request: Request) -> None:
    """Look for torchrun, the project's folder and, on cuda, enough GPUs."""
    if importlib.util.find_spec("torch") is None:
        msg = f"torch is not installed for {sys.executable}: install the project's requirements.lock"
        raise RequestError(msg)
    if request.options["device"] == "cuda":
        wanted = sum(len(node.env["CUDA_VISIBLE_DEVICES"].split(",")) for node in request.nodes)
        seen = len(gpus())
        if wanted > seen:
            msg = f"the layout needs {wanted} GPUs and this machine shows {seen}: choose a smaller one, or --device cpu"
            raise RequestError(msg)


def image(request: Request, screen: Screen) -> None:
    """There is none."""


def start(request: Request, folder: RunFolder) -> LocalExecution:
    """Start the agents."""
    port = {"PET_MASTER_PORT": str(_free_port())}
    nodes = {number: replace(node, env={**_visible(node.env), **port}) for number, node in enumerate(request.nodes)}
    return LocalExecution(nodes, request.cwd, folder, folder.path.name)


class LocalExecution:
    """The agents of some nodes of a run, all of them here, and the files that their workers print to.

    All of their processes carry the mark in their environment.
    """

    def __init__(self, nodes: dict[int, NodeRequest], cwd: str, folder: RunFolder, mark: str) -> None:
        self._mark = mark
        self._agents: dict[int, subprocess.Popen[bytes]] = {}
        self._stopped: set[int] = set()
        self._tails = [
            Tail(folder.node(node), node, local_rank)
            for node, wanted in nodes.items()
            for local_rank in range(wanted.processes)
        ]
        for node, wanted in nodes.items():
            artifacts = str((folder.path / "artifacts").resolve())
            own = {MARK: mark, "PET_LOG_DIR": str(folder.node(node).resolve()), "KIT_ARTIFACTS": artifacts}
            with folder.open_agent(node) as output:
                self._agents[node] = subprocess.Popen(
                    [*_TORCHRUN, *wanted.argv[1:]],
                    cwd=cwd,
                    env={**_inherited(), **wanted.env, **own},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - the runner has one thread here
                )

    def lines(self) -> Iterator[Line | None]:
        """Follow the workers' files until every agent has ended; where one fails, the others get a grace."""
        deadline = None
        polls = 0
        while self._running():
            found = [line for tail in self._tails for line in tail.read()] if polls % QUIET_POLLS == 0 else []
            yield from found or (None,)
            polls += 1
            if deadline is None and any(agent.returncode for agent in self._agents.values()):
                deadline = time.monotonic() + GRACE_SECONDS
            if deadline is not None and time.monotonic() > deadline:
                self.stop()
            self._wait()
        self._kill_workers()
        yield from (line for tail in self._tails for line in tail.read(to_end=True))

    @property
    def exits(self) -> list[NodeExit]:
        """How each agent ended."""
        return [self._exit(node, agent) for node, agent in self._agents.items()]

    def stop(self) -> None:
        """Ask the agents to end, which end their workers; kill whatever is still there after the grace."""
        for agent in self._running():
            self._stopped.add(agent.pid)
            agent.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline and self._running():
            self._wait()
        for agent in self._running():
            agent.kill()
            agent.wait()
        self._kill_workers()

    def _running(self) -> list[subprocess.Popen[bytes]]:
        """Ask every agent (not only the first that still runs), so that each one's end is seen when it comes."""
        return [agent for agent in self._agents.values() if agent.poll() is None]

    def _wait(self) -> None:
        """Sleep until something may have changed: an agent that ends is noticed at once."""
        if running := self._running():
            with suppress(subprocess.TimeoutExpired):
                running[0].wait(POLL_SECONDS)

    def _kill_workers(self) -> None:
        """Kill workers that outlived their agent; they carry the mark in their environment."""
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == self._mark:
                    process.kill()

    def _exit(self, node: int, agent: subprocess.Popen[bytes]) -> NodeExit:
        code = agent.wait()
        name = signal.Signals(-code).name if code < 0 else None
        return NodeExit(node, code if code >= 0 else None, name, stopped=agent.pid in self._stopped)


def _inherited() -> dict[str, str]:
    """Return the runner's own environment, less what another launcher may have left in it."""
    stale = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in stale and not name.startswith(("PET_", "TORCHELASTIC_"))
    }


def _visible(env: dict[str, str]) -> dict[str, str]:
    """Count a node's GPUs within those that the caller made visible."""
    allowed = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    if "CUDA_VISIBLE_DEVICES" not in env or not allowed:
        return env
    chosen = [allowed[int(word)] for word in env["CUDA_VISIBLE_DEVICES"].split(",")]
    return {**env, "CUDA_VISIBLE_DEVICES": ",".join(chosen)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
