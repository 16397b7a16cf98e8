"""One run on the engine: its containers are made, followed to their end, and removed."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner.core.text import one_line
from runner.records.schema import NodeExit
from runner.targets.base import Note
from runner.targets.children import end_marked, marks
from runner.targets.compose import engine
from runner.targets.compose.containers import Followed, of_project, project_of, remove_all
from runner.targets.compose.link import slow_down
from runner.targets.node_view import NodeView, at_once, by_node
from runner.targets.worker_logs import GRACE_SECONDS, POLL_SECONDS, WorkerLogs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

    from runner.records.folder import RunFolder
    from runner.targets.base import LaunchSpec, Line
    from runner.targets.compose.link import Link

UP = ("--detach", "--no-build", "--pull", "never")


class ComposeHandle:
    """The containers of one run, and the files that their workers print to."""

    def __init__(self, client: DockerClient, spec: LaunchSpec, folder: RunFolder, link: Link | None = None) -> None:
        self._client, self._nodes, self._root, self._folder = client, spec.nodes, Path(spec.cwd), folder
        self._link = link
        self._text = spec.text(folder.path.name)
        self._project = project_of(folder.path.name)
        self._followed: list[Followed] = []
        self._logs = WorkerLogs(folder, {number: node.processes for number, node in enumerate(spec.nodes)})
        self._up: subprocess.Popen[bytes] | None = None
        self._left: str | None = None
        """What could not be removed, and how to do it."""

    def lines(self) -> Iterator[Line | Note | None]:
        """Start the containers, follow the files of their workers, and remove the containers."""
        yield from self._make()
        for line in self._logs.follow(self._followed, self._stop_containers):
            yield line
            for one in self._followed:
                one.raise_failure()
        yield from self._logs.rest()
        self._remove()
        if self._left:
            yield Note(self._left)

    @property
    def exits(self) -> list[NodeExit]:
        """How the container of each node ended; one that was never made has neither a code nor a signal."""
        known = {one.node: one.exit for one in self._followed}
        exits = [known.get(node) or NodeExit(node, stopped=True) for node in range(len(self._nodes))]
        for one in exits:
            one.why = one.why or self._left
        return exits

    def idle(self) -> list[NodeView]:
        """Ask the engine which containers do not run."""
        known = {one.node: one.idle() for one in self._followed}
        absent = (node for node in range(len(self._nodes)) if node not in known)
        missing = [NodeView(node, idle="its container is not there yet") for node in absent]
        return [*missing, *(view for view in known.values() if view)]

    def look(self, *, abort: bool = False) -> list[NodeView]:
        """Look into the containers, all at once."""
        idle = self.idle()
        running = [one for one in self._followed if one.node not in {view.node for view in idle}]
        return by_node([*at_once(lambda one: one.look(abort=abort), running), *idle])

    def stop(self) -> None:
        """End the containers and remove them."""
        # Compose is a child of the docker command, and goes on making containers unless it gets the signal itself.
        end_marked(self._folder.path.name, GRACE_SECONDS)
        if self._up and self._up.stderr and not self._up.stderr.closed:
            self._up.communicate()
        self._stop_containers()
        self._remove()

    def _make(self) -> Iterator[None]:
        """Let Compose make the containers, and follow each from its first line."""
        (self._root / "data").mkdir(exist_ok=True)  # Docker would make it, and it would belong to root
        outputs = [self._folder.open_agent(node) for node in range(len(self._nodes))]
        # Not the kept file: a secret is masked there. Memory, so that it is on no disk either.
        with os.fdopen(os.memfd_create("compose.yaml"), "w+b") as file:
            file.write(self._text.encode("utf-8", "surrogateescape"))
            file.seek(0)
            places = ["-f", "-", "--project-directory", str(self._folder.path / "request")]
            self._up = subprocess.Popen(
                ["docker", "compose", "--progress", "quiet", *places, "-p", self._project, "up", *UP],
                env={**os.environ, **self._environment(), **marks(self._folder.path.name)},
                stdin=file,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        while self._up.poll() is None:
            yield None
            with suppress(subprocess.TimeoutExpired):
                self._up.wait(POLL_SECONDS)
        said = self._up.communicate()[1].decode("utf-8", "replace").strip()
        if self._up.returncode:
            raise OSError(one_line(said.splitlines()[-1] if said else "docker compose up failed and printed nothing"))
        containers = of_project(self._client, self._project)
        if self._link and len(self._nodes) > 1:
            slow_down(self._client, self._project, containers.values(), self._link)
        self._followed = [Followed(node, containers[f"node{node}"], file) for node, file in enumerate(outputs)]

    def _environment(self) -> dict[str, str]:
        """Name the exact image, and let the containers write as the caller does."""
        own = (0, 0) if engine.is_rootless(self._client) else (os.getuid(), os.getgid())
        image = str((self._folder.launch().image or {})["id"])
        return {"KIT_UID": str(own[0]), "KIT_GID": str(own[1]), "KIT_IMAGE": image}

    def _stop_containers(self) -> None:
        for one in self._followed:  # all at once: each may take its whole grace
            one.stop(GRACE_SECONDS)
        for one in self._followed:
            one.wait(2 * GRACE_SECONDS)

    def _remove(self) -> None:
        try:
            remove_all(self._client, self._project)
        except OSError as error:
            self._left = one_line(f"{error}: left behind; docker compose -p {self._project} down")
