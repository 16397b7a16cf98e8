"""Containers of one run: followed from their first line, asked how they ended, and removed by their label."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from runner.engine import reach
from runner.errors import one_line
from runner.schema import NodeExit
from runner.targets.base import exit_of

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LABEL = "com.docker.compose.project"
_SERVICE = "com.docker.compose.service"


class Followed:
    """One node's container: a thread copies what it prints, byte for byte, and waits for its end."""

    def __init__(self, node: int, container: Container, output: BinaryIO) -> None:
        self.node = node
        self.exit: NodeExit | None = None
        self._container = container
        self._output = output
        self._stopped = False
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether the container has ended and all that it printed is kept."""
        return self.exit is not None

    def join(self, seconds: float) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    def stop(self, grace_seconds: float) -> None:
        """Ask the container to end, and kill it after the grace; whoever has ended already is left alone."""
        if not self.ended:
            self._stopped = True
            with suppress(OSError):
                self._container.stop(timeout=round(grace_seconds))

    def _follow(self) -> None:
        """Copy the output; a connection that breaks is taken up again where it broke, after a look at the state."""
        state: dict[str, Any] = {}
        with self._output as output:
            try:
                for chunk in self._container.logs(stream=True, follow=True):
                    output.write(chunk)
                    output.flush()
                self._container.wait()
                self._container.reload()
                state = self._container.attrs["State"]
            except OSError as error:  # docker's errors are, too: somebody removed the container, or the engine is gone
                output.write(f"runner: the container cannot be followed any more: {one_line(error)}\n".encode())
        self.exit = self._describe(state)

    def _describe(self, state: dict[str, Any]) -> NodeExit:
        """Translate the engine's words; a container that is gone has neither a code nor a signal."""
        code, name = exit_of(state.get("ExitCode"))
        return NodeExit(self.node, code, name, self._stopped, bool(state.get("OOMKilled")))


def of_project(client: DockerClient, project: str) -> dict[str, Container]:
    """Find the containers of a compose project, by service."""
    found = client.containers.list(all=True, filters={"label": f"{LABEL}={project}"})
    return {container.labels.get(_SERVICE, container.name): container for container in found}


def remove_all(client: DockerClient, project: str) -> None:
    """Remove the containers and networks of a compose project; OSError if something withstands."""
    from docker.errors import NotFound  # noqa: PLC0415 - imported on use

    for container in of_project(client, project).values():
        with suppress(NotFound):
            container.remove(force=True, v=True)
    for network in client.networks.list(filters={"label": f"{LABEL}={project}"}):
        with suppress(NotFound):
            network.remove()


def tidy(project: str) -> None:
    """End and remove what a runner that was killed has left."""
    client = reach()
    for container in of_project(client, project).values():
        container.stop(timeout=10)
    remove_all(client, project)
