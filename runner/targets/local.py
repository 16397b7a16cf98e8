"""Target `local`: one torchrun agent for each node of the layout, all on this machine."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.ports import free_port
from runner.core.text import one_line
from runner.definitions.plan import Run
from runner.records.folder import RunFolder
from runner.records.provenance import gpus
from runner.records.schema import NodeExit
from runner.targets import node_view
from runner.targets.base import LaunchSpec, Line, NodeSpec, Note, Target
from runner.targets.children import die_with_parent, end_orphans, kill_marked, marks
from runner.targets.node_view import NodeView, Seen
from runner.targets.torchrun import device_ids, node_specs
from runner.targets.worker_logs import GRACE_SECONDS, WorkerLogs

# What the command torchrun is, for the Python that the runner itself runs on.
_TORCHRUN = (sys.executable, "-m", "torch.distributed.run")


class Local(Target[LaunchSpec]):
    """Starts torchrun agents on this machine."""

    name: ClassVar[str] = "local"
    summary: ClassVar[str] = "processes of this machine, started by torchrun; one agent for each node of the layout"

    def spec(self, run: Run) -> LaunchSpec:
        """Build one torchrun command and environment for each node; the port is chosen at the start."""
        nodes = node_specs(run.cell, "127.0.0.1", run.device)
        ids_of_nodes = device_ids(run.cell.layout, run.cell.devices_per_process)
        for node, ids in zip(nodes, ids_of_nodes, strict=True):
            del node.env["PET_MASTER_PORT"]
            if run.device == "cuda":
                node.env["CUDA_VISIBLE_DEVICES"] = ",".join(ids)
        return LaunchSpec(nodes, str(run.experiment.root), run.device)

    def preflight(self, spec: LaunchSpec) -> None:
        """Look for torchrun and, on cuda, for enough GPUs."""
        if importlib.util.find_spec("torch") is None:
            raise RequestError(
                f"torch is not installed for {sys.executable}: pip install 'distributed-experiment-kit[torch]'"
            )
        if spec.device == "cuda":
            needed = sum(len(node.env["CUDA_VISIBLE_DEVICES"].split(",")) for node in spec.nodes)
            seen = len(gpus())
            if needed > seen:
                raise RequestError(
                    f"the layout needs {needed} GPUs, this machine shows {seen}: choose a smaller one, or --device cpu"
                )

    def start(self, spec: LaunchSpec, folder: RunFolder) -> LocalHandle:
        """Choose a port; the agents are started when the lines are asked for, so that a stop finds them."""
        port = {"PET_MASTER_PORT": str(free_port())}
        nodes = {number: replace(node, env={**_visible(node.env), **port}) for number, node in enumerate(spec.nodes)}
        return LocalHandle(nodes, spec.cwd, folder, folder.path.name)

    def cleanup(self, folder: RunFolder) -> None:
        """End the processes that carry the run's mark and have no runner."""
        end_orphans(folder.path.name, GRACE_SECONDS)


class LocalHandle:
    """The agents of some nodes of a run, all of them here; their processes carry the mark in their environment."""

    def __init__(self, nodes: dict[int, NodeSpec], cwd: str, folder: RunFolder, mark: str) -> None:
        self._nodes, self._cwd, self._folder, self._mark = nodes, cwd, folder, mark
        self._agents: dict[int, _Agent] = {}
        self._logs = WorkerLogs(folder, {number: node.processes for number, node in nodes.items()})

    def lines(self) -> Iterator[Line | Note | None]:
        """Start the agents, and follow the files of their workers until every agent has ended."""
        for number, node in self._nodes.items():
            self._agents[number] = self._start(number, node)
        yield from self._logs.follow(list(self._agents.values()), self.stop)
        kill_marked(self._mark)
        yield from self._logs.rest()

    @property
    def exits(self) -> list[NodeExit]:
        """How each agent ended; one that was never started has neither a code nor a signal."""
        return [
            self._agents[number].exit(number) if number in self._agents else NodeExit(number, stopped=True)
            for number in self._nodes
        ]

    def idle(self) -> list[NodeView]:
        """Return nothing: an agent that has ended ends the run."""
        return []

    def look(self, *, abort: bool = False) -> list[NodeView]:
        """Look at the processes with the run's mark; each belongs to the node of its environment."""
        words = node_view.command_here(self._mark, abort=abort)
        try:
            done = subprocess.run(words, capture_output=True, timeout=node_view.SECONDS, check=False)
            seen = node_view.read(done.stdout or done.stderr)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return [NodeView(node, trouble=one_line(error)) for node in self._nodes]
        return [self._view(node, seen) for node in self._nodes]

    def _view(self, node: int, seen: Seen) -> NodeView:
        agents = [one for one in seen.agents if one.told.node == str(node)]
        ranks = [one for one in seen.ranks if one.node == str(node)]
        idle = None if agents or ranks else "its torchrun has ended"
        return NodeView(node, Seen(seen.host, agents, ranks), idle)

    def stop(self) -> None:
        """Ask the agents to end, which end their workers; kill whatever is still there after the grace."""
        agents = list(self._agents.values())
        for agent in agents:
            agent.terminate()
        deadline = clock.monotonic() + GRACE_SECONDS
        for agent in agents:
            agent.wait(max(0.0, deadline - clock.monotonic()))
            agent.kill()
        kill_marked(self._mark)

    def _start(self, number: int, node: NodeSpec) -> _Agent:
        folders = {
            "PET_LOG_DIR": str(self._folder.node(number).resolve()),
            "KIT_ARTIFACTS": str((self._folder.path / "artifacts").resolve()),
        }
        with self._folder.open_agent(number) as output:
            return _Agent(
                subprocess.Popen(
                    [*_TORCHRUN, *node.argv[1:]],
                    cwd=self._cwd,
                    env={**_inherited(), **_found_first(node.env), **marks(self._mark), **folders},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - the runner has one thread here
                )
            )


class _Agent:
    """One torchrun agent."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._stopped = False

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def failed(self) -> bool:
        return bool(self._process.returncode)

    def wait(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def terminate(self) -> None:
        if not self.ended:
            self._stopped = True
            self._process.terminate()

    def kill(self) -> None:
        if not self.ended:
            self._process.kill()

    def exit(self, node: int) -> NodeExit:
        code = self._process.wait()
        name = signal.Signals(-code).name if code < 0 else None
        return NodeExit(node, code if code >= 0 else None, name, stopped=self._stopped)


def _inherited() -> dict[str, str]:
    """Return the runner's own environment, less what another launcher may have left in it."""
    stale = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in stale and not name.startswith(("PET_", "TORCHELASTIC_"))
    }


def _found_first(env: dict[str, str]) -> dict[str, str]:
    """Let a program find the modules of its project before those of the caller's PYTHONPATH."""
    places = [env.get("PYTHONPATH"), os.environ.get("PYTHONPATH")]
    return {**env, "PYTHONPATH": ":".join(filter(None, places))} if all(places) else env


def _visible(env: dict[str, str]) -> dict[str, str]:
    """Count a node's GPUs within those that the caller made visible."""
    allowed = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    if "CUDA_VISIBLE_DEVICES" not in env or not allowed:
        return env
    chosen = [allowed[int(word)] for word in env["CUDA_VISIBLE_DEVICES"].split(",")]
    return {**env, "CUDA_VISIBLE_DEVICES": ",".join(chosen)}
