"""Follow the containers of a run to their end, and remove them by their label."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from runner.core import clock
from runner.core.text import one_line
from runner.records.schema import NodeExit
from runner.targets import node_view
from runner.targets.base import SIGNALLED, FollowedNode, exit_of
from runner.targets.node_view import NodeView

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LABEL = "com.docker.compose.project"
_SERVICE = "com.docker.compose.service"
_GONE_SECONDS = 30.0
"""How long the engine may take to finish a removal that another process requested."""
_AGAIN_SECONDS = 0.3
_BUSY = (403, 409)
LATE_SECONDS = 5.0
"""How long the engine may take to create a container whose client is gone."""


class ContainerNode(FollowedNode):
    """Container of one node. A thread copies the container's output byte for byte and waits for its end."""

    _container: Container
    _output: BinaryIO

    def attach(self, container: Container, output: BinaryIO) -> None:
        """Start following a container."""
        self._container, self._output = container, output
        self.begin()

    def stop(self, grace_seconds: float) -> None:
        """End the container without waiting. The engine kills it after the grace period."""
        if self.is_begun and not self.ended:
            self.stopped = True
            threading.Thread(target=self._stop, args=(round(grace_seconds),), daemon=True).start()

    def idle(self) -> NodeView | None:
        """Return why no process runs in the container. Returns None if a process may run."""
        if not self.is_begun:
            return NodeView(self.number, idle="its container does not exist yet")
        try:
            self._container.reload()
            status = self._container.status
        except Exception:  # noqa: BLE001 - the container or the engine is gone
            return None
        return None if status == "running" else NodeView(self.number, idle=f"its container is {status}")

    def look(self, *, abort: bool) -> NodeView:
        """Inspect the container's processes in a thread. If the container hangs, the engine may wait forever."""
        found = [NodeView(self.number, trouble=f"no process starts in its container within {node_view.SECONDS:g} s")]

        def run_inside() -> None:
            try:
                output = self._container.exec_run(node_view.command_inside(abort=abort)).output or b""
                found.append(node_view.view(self.number, output))
            except Exception as error:  # noqa: BLE001 - the container or the engine is gone
                found.append(NodeView(self.number, trouble=str(error)))

        thread = threading.Thread(target=run_inside, daemon=True)
        thread.start()
        thread.join(node_view.SECONDS)
        return found[-1]

    def follow(self) -> NodeExit:
        """Copy all output. Returns how the container ended. Exit code and signal are None if it was removed."""
        state: dict[str, Any] = {}
        try:
            for chunk in self._container.logs(stream=True, follow=True):
                self._write(chunk)
            self._container.wait()
            self._container.reload()
            state = self._container.attrs["State"]
        except Exception as error:  # noqa: BLE001 - the container or the engine is gone
            self._write(f"runner: the container cannot be followed any more: {one_line(error)}\n".encode())
        with suppress(OSError):  # closing flushes the buffer
            self._output.close()
        code, name = exit_of(state.get("ExitCode"), SIGNALLED)
        return NodeExit(self.number, code, name, self.stopped, bool(state.get("OOMKilled")))

    def _stop(self, seconds: int) -> None:
        with suppress(OSError):
            self._container.stop(timeout=seconds)

    def _write(self, data: bytes) -> None:
        """Write output. If a write fails, drop the rest, so that `follow` still notices the container's end."""
        if self.failure:
            return
        try:
            self._output.write(data)
            self._output.flush()
        except OSError as error:
            self.failure = error


def project_of(run_id: str) -> str:
    """Return the name of a run's Compose project."""
    return f"kit-{run_id.lower()}"


def of_project(client: DockerClient, project: str) -> dict[str, Container]:
    """Return the containers of a Compose project by service name."""
    found = client.containers.list(all=True, filters={"label": f"{LABEL}={project}"}, ignore_removed=True)
    return {container.labels.get(_SERVICE, container.name): container for container in found}


def remove_all(client: DockerClient, project: str, late_seconds: float = 0.0) -> None:
    """Remove the containers and networks of a Compose project.

    If the engine refuses to remove an object, remove the others and raise OSError. Another process may remove the same
    objects meanwhile. If Compose was killed, the engine may still create containers, so search for `late_seconds`.
    """
    began = clock.monotonic()
    while True:
        removals = [partial(container.remove, force=True, v=True) for container in of_project(client, project).values()]
        removals += [network.remove for network in client.networks.list(filters={"label": f"{LABEL}={project}"})]
        refused: list[OSError] = []
        for remove in removals:
            try:
                _remove(remove, began + _GONE_SECONDS)
            except OSError as error:
                refused.append(error)
        if clock.monotonic() >= began + late_seconds:
            break
        clock.sleep(_AGAIN_SECONDS)
    if refused:
        raise refused[0]


@contextmanager
def made(client: DockerClient, image: str, command: list[str], **options: Any) -> Iterator[Container]:
    """Create a container without starting it, and remove it on exit."""
    name = f"kit-look-{secrets.token_hex(8)}"
    with removing(client, name):
        yield client.containers.create(image, command, name=name, **options)


@contextmanager
def removing(client: DockerClient, name: str) -> Iterator[None]:
    """Remove a container on exit, even if a signal interrupted its creation. Raises docker's errors."""
    late_seconds = LATE_SECONDS
    try:
        yield
        late_seconds = 0.0
    finally:
        now, remove = clock.monotonic(), partial(client.api.remove_container, name, force=True, v=True)
        _remove(remove, now + _GONE_SECONDS, now + late_seconds)


def _remove(remove: Callable[[], object], until: float, late: float = 0.0) -> None:
    """Remove an object. If there is none, look again until time `late`. If the engine is busy, retry until `until`."""
    from docker.errors import APIError, NotFound

    while True:
        try:
            remove()
        except NotFound:
            if clock.monotonic() >= late:
                return
        except APIError as error:  # the object, or a container of the network, is being removed
            if error.status_code not in _BUSY or clock.monotonic() > until:
                raise
        else:
            return
        clock.sleep(_AGAIN_SECONDS)
