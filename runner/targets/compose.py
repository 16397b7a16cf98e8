"""Target `compose`: one container for each node of the layout, on this machine's Docker Engine."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from runner import engine, images
from runner.composefile import WORKSPACE, service
from runner.errors import one_line
from runner.manifest import to_yaml
from runner.schema import NodeExit
from runner.targets.base import Line, Request
from runner.targets.containers import Followed, of_project, remove_all
from runner.targets.tail import Tail
from runner.targets.torchrun import device_ids, node_requests
from runner.targets.watchdog import release, watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.console import Screen
    from runner.plan import Run
    from runner.record import RunFolder

POLL_SECONDS = 0.1
QUIET_POLLS = 5
GRACE_SECONDS = 10.0
SHM = "1gb"
UNLIMITED = "0"
RAW = "/raw"
"""Where a container finds its own node's folder of the run's raw files."""
ARTIFACTS = "/artifacts"
"""Where it finds the run's folder for traces and plots."""
_HEADER = """One run as it was started. From its own folder it can be started again:
mkdir -p {folders} && docker compose -f compose.yaml up"""


@dataclass(frozen=True)
class ComposeRequest(Request):
    """A run as a compose file, whose paths are those of a run's folder."""

    document: dict[str, Any] = field(default_factory=dict)
    file: ClassVar[str] = "compose.yaml"

    def text(self) -> str:
        """Write the compose file."""
        folders = " ".join(f"../raw/{name}" for name in self.document["services"])
        return to_yaml(self.document, _HEADER.format(folders=folders))


def request(run: Run, options: dict[str, str]) -> ComposeRequest:
    """Build a compose file with a service a node."""
    root = str(run.experiment.root)
    nodes = node_requests(run.cell, "node0")
    services = {
        f"node{number}": service(
            number,
            device=run.device,
            command=[_literal(word) for word in node.argv],
            environment={**node.env, "PET_LOG_DIR": RAW, "KIT_ARTIFACTS": ARTIFACTS},
            binds={
                RAW: f"../raw/node{number}",
                ARTIFACTS: "../artifacts",
                f"{WORKSPACE}/data:ro": f"{_literal(root)}/data",
            },
            gpus=gpus if run.device == "cuda" else None,
            nodes=len(nodes),
            shm=options.get("shm", SHM),
            memory=options.get("memory", UNLIMITED),
        )
        for number, (node, gpus) in enumerate(zip(nodes, device_ids(run.cell), strict=True))
    }
    return ComposeRequest(nodes, root, {"device": run.device, **options}, {"services": services})


def _literal(text: str) -> str:
    """Keep Compose from reading a variable into a text."""
    return text.replace("$", "$$")


def check(request: Request) -> None:
    """Look for an engine on this machine, for Compose and, on cuda, for the engine's GPU driver."""
    client = engine.reach()
    engine.check_here(client)
    engine.check_compose()
    options = request.options
    most = max(node.processes for node in request.nodes)
    engine.check_memory(client, options.get("shm", SHM), options.get("memory", UNLIMITED), most)
    if request.options["device"] == "cuda":
        engine.check_gpus(client)


def image(request: Request, screen: Screen) -> dict[str, Any]:
    """Find or build the image."""
    return images.ready(engine.reach(), Path(request.cwd), request.options["device"], screen)


def start(request: Request, folder: RunFolder) -> ComposeExecution:
    """Make ready to start it; the containers are made when its lines are asked for, so that a stop finds them."""
    return ComposeExecution(request, folder)


class ComposeExecution:
    """The containers of one run, and the files that their workers print to."""

    def __init__(self, request: Request, folder: RunFolder) -> None:
        self._client = engine.reach()
        self._project = f"kit-{folder.path.name.lower()}"
        self._folder = folder
        self._nodes = request.nodes
        self._followed: list[Followed] = []
        self._up: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._root = Path(request.cwd)
        self._image = str((folder.launch().image or {})["id"])
        self._tails = [
            Tail(folder.node(node), node, local_rank)
            for node, wanted in enumerate(request.nodes)
            for local_rank in range(wanted.processes)
        ]

    def lines(self) -> Iterator[Line | None]:
        """Start the containers and follow the workers' files; where a node fails, the others get a grace."""
        yield from self._start()
        deadline = None
        polls = 0
        while running := [one for one in self._followed if not one.ended]:
            found = [line for tail in self._tails for line in tail.read()] if polls % QUIET_POLLS == 0 else []
            yield from found or (None,)
            polls += 1
            if deadline is None and any(one.exit and one.exit.code != 0 for one in self._followed):
                deadline = time.monotonic() + GRACE_SECONDS
            if deadline is not None and time.monotonic() > deadline:
                self._stop_containers()
            running[0].join(POLL_SECONDS)
        yield from (line for tail in self._tails for line in tail.read(to_end=True))
        self._remove()

    @property
    def exits(self) -> list[NodeExit]:
        """How each node's container ended; one that never came to be has neither a code nor a signal."""
        known = {one.node: one.exit for one in self._followed}
        return [known.get(node) or NodeExit(node, stopped=True) for node in range(len(self._nodes))]

    def stop(self) -> None:
        """End the containers and remove them."""
        if self._up and self._up.poll() is None:
            # Compose is a child of the docker command, and goes on making things unless it hears the signal itself.
            os.killpg(self._up.pid, signal.SIGTERM)
            self._up.communicate()
        self._stop_containers()
        self._remove()

    def _start(self) -> Iterator[None]:
        """Let Compose make the containers, and follow each from its first line."""
        (self._root / "data").mkdir(exist_ok=True)  # Docker would make it root's
        outputs = [self._folder.open_agent(node) for node in range(len(self._nodes))]
        self._watchdog = watch(of_project.__module__, self._project)
        file = self._folder.path / "request" / ComposeRequest.file
        words = ["docker", "compose", "--progress", "quiet", "-f", str(file), "-p", self._project]
        self._up = subprocess.Popen(
            [*words, "up", "--detach", "--no-build", "--pull", "never"],
            env={**os.environ, **self._environment()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        while self._up.poll() is None:
            yield None
            with suppress(subprocess.TimeoutExpired):
                self._up.wait(POLL_SECONDS)
        if self._up.returncode:
            said = (self._up.stderr.read() if self._up.stderr else b"").decode("utf-8", "replace").strip()
            raise OSError(one_line(said.splitlines()[-1] if said else "docker compose up failed without a word"))
        containers = of_project(self._client, self._project)
        self._followed = [Followed(node, containers[f"node{node}"], file) for node, file in enumerate(outputs)]

    def _environment(self) -> dict[str, str]:
        """Name the exact image, and let the containers write as the caller does."""
        own = (0, 0) if engine.is_rootless(self._client) else (os.getuid(), os.getgid())
        return {"KIT_UID": str(own[0]), "KIT_GID": str(own[1]), "KIT_IMAGE": self._image}

    def _stop_containers(self) -> None:
        """Stop all at once: each may take its whole grace."""
        stops = [threading.Thread(target=one.stop, args=(GRACE_SECONDS,)) for one in self._followed]
        for stop in stops:
            stop.start()
        for stop, one in zip(stops, self._followed, strict=True):
            stop.join()
            one.join(GRACE_SECONDS)

    def _remove(self) -> None:
        remove_all(self._client, self._project)
        if self._watchdog:
            release(self._watchdog)
            self._watchdog = None
