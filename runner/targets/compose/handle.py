"""One run on the engine: its containers are made, followed to their end, and removed."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner.core.text import one_line
from runner.targets.children import end_marked, marks
from runner.targets.compose import engine
from runner.targets.compose.containers import ContainerNode, of_project, project_of, remove_all
from runner.targets.compose.link import slow_down
from runner.targets.worker_logs import GRACE_SECONDS, POLL_SECONDS, WorkersHandle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from docker import DockerClient

    from runner.records.folder import RunFolder
    from runner.targets.base import LaunchSpec
    from runner.targets.compose.link import Link

UP = ("--detach", "--no-build", "--pull", "never")


class ComposeHandle(WorkersHandle):
    """The containers of one run, and the files that their workers print to."""

    nodes: Sequence[ContainerNode]

    def __init__(self, client: DockerClient, spec: LaunchSpec, folder: RunFolder, link: Link | None = None) -> None:
        nodes = [ContainerNode(number) for number in range(len(spec.nodes))]
        super().__init__(folder, nodes, [node.processes for node in spec.nodes])
        self._client, self._root, self._link = client, Path(spec.cwd), link
        self._text = spec.text(folder.path.name)
        self._project = project_of(folder.path.name)
        self._up: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End the containers and remove them."""
        # Compose is a child of the docker command, and goes on making containers unless it gets the signal itself.
        end_marked(self._folder.path.name, GRACE_SECONDS)
        if self._up and self._up.stderr and not self._up.stderr.closed:
            self._up.communicate()
        self._end()
        self._finish()

    def _start(self) -> Iterator[None]:
        """Let Compose make the containers of the exact image, whose files are the caller's, and follow each."""
        own = (0, 0) if engine.is_rootless(self._client) else (os.getuid(), os.getgid())
        image = str((self._folder.launch().image or {})["id"])
        variables = {"KIT_UID": str(own[0]), "KIT_GID": str(own[1]), "KIT_IMAGE": image}
        (self._root / "data").mkdir(exist_ok=True)  # Docker would make it, and it would belong to root
        outputs = [self._folder.open_agent(node.number) for node in self.nodes]
        # Not the kept file: a secret is masked there. Memory, so that it is on no disk either.
        with os.fdopen(os.memfd_create("compose.yaml"), "w+b") as file:
            file.write(self._text.encode("utf-8", "surrogateescape"))
            file.seek(0)
            places = ["-f", "-", "--project-directory", str(self._folder.path / "request")]
            self._up = subprocess.Popen(
                ["docker", "compose", "--progress", "quiet", *places, "-p", self._project, "up", *UP],
                env={**os.environ, **variables, **marks(self._folder.path.name)},
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
        if self._link and len(self.nodes) > 1:
            slow_down(self._client, self._project, containers.values(), self._link)
        for node, output in zip(self.nodes, outputs, strict=True):
            node.attach(containers[f"node{node.number}"], output)

    def _end(self) -> None:
        for node in self.nodes:  # all at once: each may take its whole grace
            node.stop(GRACE_SECONDS)
        for node in self.nodes:
            node.wait(2 * GRACE_SECONDS)

    def _finish(self) -> Iterable[None]:
        try:
            remove_all(self._client, self._project)
        except OSError as error:
            self.left = one_line(f"{error}: left behind; docker compose -p {self._project} down")
        return ()
