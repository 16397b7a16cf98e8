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
from typing import TYPE_CHECKING

import psutil

from runner.environment import gpus
from runner.errors import RequestError
from runner.schema import NodeExit
from runner.targets.base import Line, NodeRequest, Request
from runner.targets.children import die_with_parent
from runner.targets.tail import Tail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.plan import Run
    from runner.record import RunFolder

MARK = "KIT_RUN_ID"
POLL_SECONDS = 0.1
QUIET_POLLS = 5
GRACE_SECONDS = 10.0
RENDEZVOUS_SECONDS = 120
# What the command torchrun is, for the Python that the runner itself runs on.
_TORCHRUN = (sys.executable, "-m", "torch.distributed.run")


def request(run: Run, options: dict[str, str]) -> Request:
    """Build one torchrun command and environment a node; the port and the log folder are chosen at the start."""
    layout, program = run.cell.layout, run.cell.program
    command = ["torchrun", "-m", program.module, *program.argv(run.cell.args)]
    devices = _devices(run)
    nodes = []
    for node, processes in enumerate(layout.processes):
        env = {
            "PET_NNODES": str(layout.nodes),
            "PET_NODE_RANK": str(node),
            "PET_NPROC_PER_NODE": str(processes),
            "PET_MASTER_ADDR": "127.0.0.1",
            "PET_RDZV_CONF": f"timeout={RENDEZVOUS_SECONDS}",
            "PET_MONITOR_INTERVAL": "0.1",
            "PET_MAX_RESTARTS": "0",
            "PET_REDIRECTS": "3",
            "OMP_NUM_THREADS": str(run.cell.args.get("threads") or 1),
            "PYTHONUNBUFFERED": "1",
        }
        if run.device == "cuda":
            first, last = layout.first_rank(node), layout.first_rank(node) + processes
            env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(first * devices, last * devices)))
        nodes.append(NodeRequest(command, env, processes))
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


def start(request: Request, folder: RunFolder) -> LocalExecution:
    """Start the agents."""
    return LocalExecution(request, folder)


class LocalExecution:
    """The agents of one run and the files that their workers print to."""

    def __init__(self, request: Request, folder: RunFolder) -> None:
        self._id = folder.path.name
        self._agents: list[subprocess.Popen[bytes]] = []
        self._stopped: set[int] = set()
        self._tails = [
            Tail(folder.node(node), node, local_rank)
            for node, wanted in enumerate(request.nodes)
            for local_rank in range(wanted.processes)
        ]
        port = str(_free_port())
        for node, wanted in enumerate(request.nodes):
            own = {MARK: self._id, "PET_MASTER_PORT": port, "PET_LOG_DIR": str(folder.node(node).resolve())}
            with folder.open_agent(node) as output:
                self._agents.append(
                    subprocess.Popen(
                        [*_TORCHRUN, *wanted.argv[1:]],
                        cwd=request.cwd,
                        env={**_inherited(), **_visible(wanted.env), **own},
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        preexec_fn=die_with_parent,  # noqa: PLW1509 - the runner has one thread here
                    )
                )

    def lines(self) -> Iterator[Line | None]:
        """Follow the workers' files until every agent has ended; where one fails, the others get a grace."""
        deadline = None
        polls = 0
        while self._running():
            found = [line for tail in self._tails for line in tail.read()] if polls % QUIET_POLLS == 0 else []
            yield from found or (None,)
            polls += 1
            if deadline is None and any(agent.returncode for agent in self._agents):
                deadline = time.monotonic() + GRACE_SECONDS
            if deadline is not None and time.monotonic() > deadline:
                self.stop()
            self._wait()
        self._kill_workers()
        yield from (line for tail in self._tails for line in tail.read(to_end=True))

    @property
    def exits(self) -> list[NodeExit]:
        """How each agent ended."""
        return [self._exit(node, agent) for node, agent in enumerate(self._agents)]

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
        return [agent for agent in self._agents if agent.poll() is None]

    def _wait(self) -> None:
        """Sleep until something may have changed: an agent that ends is noticed at once."""
        if running := self._running():
            with suppress(subprocess.TimeoutExpired):
                running[0].wait(POLL_SECONDS)

    def _kill_workers(self) -> None:
        """Kill workers that outlived their agent; they carry the run's id in their environment."""
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == self._id:
                    process.kill()

    def _exit(self, node: int, agent: subprocess.Popen[bytes]) -> NodeExit:
        code = agent.wait()
        name = signal.Signals(-code).name if code < 0 else None
        return NodeExit(node, code if code >= 0 else None, name, stopped=agent.pid in self._stopped)


def _devices(run: Run) -> int:
    """GPUs of one process: one, unless the program spreads over several."""
    devices = run.cell.args.get("devices", 1)
    return devices if isinstance(devices, int) and devices > 0 else 1


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
