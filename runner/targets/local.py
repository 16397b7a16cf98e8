"""Target `local`: one torchrun agent for each node of the layout, all on this machine."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

import psutil

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.parent import adopt, die_with_parent
from runner.core.ports import held_port
from runner.core.text import one_line
from runner.definitions.environment import values_of
from runner.definitions.plan import Run
from runner.records.folder import RunFolder
from runner.records.provenance import gpus
from runner.records.schema import NodeExit
from runner.targets import node_view
from runner.targets.base import FollowedNode, LaunchSpec, NodeSpec, Target, exit_of
from runner.targets.children import end_marked, end_orphans, marks
from runner.targets.clean_environment import clean_environment
from runner.targets.node_view import NodeView
from runner.targets.observing import HOOKS, OBSERVE, OBSERVER, is_observed
from runner.targets.torchrun import device_ids, node_specs
from runner.targets.worker_logs import GRACE_SECONDS, WorkersHandle

# The command torchrun, run by the runner's own Python.
_TORCHRUN = (sys.executable, "-m", "torch.distributed.run")


class Local(Target[LaunchSpec]):
    """Runs torchrun agents on this machine."""

    name: ClassVar[str] = "local"
    summary: ClassVar[str] = "processes on this machine, started by torchrun; one agent for each node of the layout"
    observes: ClassVar[bool] = True

    def spec(self, run: Run) -> LaunchSpec:
        """Return a torchrun command and environment for each node. The port is missing: `start` chooses it."""
        nodes = node_specs(run.cell, "127.0.0.1", run.device)
        ids_of_nodes = device_ids(run.cell.layout, run.cell.devices_per_process)
        for node, ids in zip(nodes, ids_of_nodes, strict=True):
            del node.env["PET_MASTER_PORT"]
            if is_observed(run):
                node.env[OBSERVE] = "1"
            if run.device == "cuda":
                node.env["CUDA_VISIBLE_DEVICES"] = ",".join(ids)
        return LaunchSpec(nodes, str(run.experiment.root), run.device)

    def preflight(self, spec: LaunchSpec) -> None:
        """Raise RequestError if torch is missing, or if a run on cuda needs more GPUs than there are."""
        if importlib.util.find_spec("torch") is None:
            raise RequestError(f"{sys.executable} has no torch: pip install 'distributed-experiment-kit[torch]'")
        if spec.device == "cuda":
            needed = sum(len(node.env["CUDA_VISIBLE_DEVICES"].split(",")) for node in spec.nodes)
            if needed > (seen := len(gpus())):
                raise RequestError(f"the layout needs {needed} GPUs, this machine has {seen}: try --device cpu")

    def start(self, spec: LaunchSpec, folder: RunFolder) -> LocalHandle:
        """Choose a port, and return a handle whose `lines` start the agents."""
        held = held_port()
        port = {"PET_MASTER_PORT": str(held.getsockname()[1])}
        nodes = {number: replace(node, env={**_visible(node.env), **port}) for number, node in enumerate(spec.nodes)}
        return LocalHandle(nodes, spec.cwd, folder, folder.path.name, held)

    def cleanup(self, folder: RunFolder) -> None:
        """End the run's processes whose runner is dead."""
        end_orphans(folder.path.name, GRACE_SECONDS)


class LocalHandle(WorkersHandle):
    """The torchrun agents of a run on this machine. Their environment contains the run's mark."""

    nodes: Sequence[_Agent]

    def __init__(
        self, nodes: dict[int, NodeSpec], cwd: str, folder: RunFolder, mark: str, held: socket.socket | None = None
    ) -> None:
        agents = [_Agent(number, spec) for number, spec in nodes.items()]
        super().__init__(folder, agents, [spec.processes for spec in nodes.values()])
        self._cwd, self._mark, self._held = cwd, mark, held
        self._others: set[int] | None = None

    def look(self, *, abort: bool = False) -> list[NodeView]:
        """Run `look.py` once, and return the views of all nodes."""
        words = node_view.command_here(self._mark, abort=abort)
        try:
            done = subprocess.run(words, capture_output=True, timeout=node_view.SECONDS, check=False)
            seen = node_view.read(done.stdout or done.stderr)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return [NodeView(node.number, trouble=one_line(error)) for node in self.nodes]
        return [seen.of_node(node.number, "its torchrun has ended") for node in self.nodes]

    def stop(self) -> None:
        """End the agents and their workers. Kill the processes that outlast the grace period."""
        for agent in self.nodes:
            agent.terminate()
        deadline = clock.monotonic() + GRACE_SECONDS
        for agent in self.nodes:
            agent.wait(max(0.0, deadline - clock.monotonic()))
            agent.kill()
        self._finish()

    def _start(self) -> Iterable[None]:
        self._others = others = {child.pid for child in psutil.Process().children()}
        adopt(orphans=True)
        for agent in self.nodes:
            others.add(agent.start(self._folder, self._cwd, self._mark))
        return ()

    def _finish(self) -> Iterable[None]:
        end_marked(self._mark, 0, self._others)
        adopt(orphans=False)
        if self._held:
            self._held.close()
        return ()


class _Agent(FollowedNode):
    def __init__(self, number: int, spec: NodeSpec) -> None:
        super().__init__(number)
        self._spec = spec
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def exit(self) -> NodeExit | None:
        code = self._process.poll() if self._process else None
        return None if code is None else NodeExit(self.number, *exit_of(code), stopped=self.stopped)

    def start(self, folder: RunFolder, cwd: str, mark: str) -> int:
        env, place = self._spec.env, str(folder.node(self.number).resolve())
        # The kit's hooks and the project's modules come before the caller's PYTHONPATH.
        search = filter(None, (str(HOOKS), env.get("PYTHONPATH"), os.environ.get("PYTHONPATH")))
        own = {"PYTHONPATH": ":".join(search), "PET_LOG_DIR": place, "KIT_SEEN": place}
        own["KIT_ARTIFACTS"] = str((folder.path / "artifacts").resolve())
        if OBSERVE in env:
            own[OBSERVE] = str(OBSERVER)
        with folder.open_agent(self.number) as output:
            self._process = subprocess.Popen(
                [*_TORCHRUN, *self._spec.argv[1:]],
                cwd=cwd,
                env={**clean_environment(), **values_of(env), **marks(mark), **own},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one thread
            )
        return self._process.pid

    def wait(self, seconds: float) -> None:
        if self._process:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    def terminate(self) -> None:
        if self._process and not self.ended:
            self.stopped = True
            self._process.terminate()

    def kill(self) -> None:
        if self._process and not self.ended:
            self._process.kill()
            self._process.wait()


def _visible(env: dict[str, str]) -> dict[str, str]:
    """Choose a node's GPUs among the GPUs that are visible to the caller."""
    allowed = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    if "CUDA_VISIBLE_DEVICES" not in env or not allowed:
        return env
    chosen = [allowed[int(word)] for word in env["CUDA_VISIBLE_DEVICES"].split(",")]
    return {**env, "CUDA_VISIBLE_DEVICES": ",".join(chosen)}
