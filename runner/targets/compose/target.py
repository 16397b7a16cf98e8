"""Target `compose`: one container for each node of the layout, on this machine's Docker Engine."""

from __future__ import annotations

import errno
import os
import re
import secrets
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from runner.core.errors import RequestError
from runner.core.secrets import MASK
from runner.core.text import one_line, shown
from runner.core.yaml_writer import to_yaml
from runner.definitions.plan import Run
from runner.definitions.program import Program
from runner.records.folder import RunFolder
from runner.records.schema import BETWEEN_NODES, OF_EACH_NODE
from runner.targets.base import LaunchSpec, Target, option
from runner.targets.children import end_marked, end_orphans, marks
from runner.targets.compose import engine
from runner.targets.compose import image as images
from runner.targets.compose.containers import (
    LATE_SECONDS,
    ContainerNode,
    of_project,
    project_of,
    remove_all,
    removing,
)
from runner.targets.compose.link import parse_link, slow_down
from runner.targets.compose.service import READ_ONLY, WORKSPACE, default_image, literal, observed, service
from runner.targets.observing import bring, is_observed, take_away
from runner.targets.torchrun import device_ids, node_specs
from runner.targets.worker_logs import GRACE_SECONDS, POLL_SECONDS, WorkersHandle

if TYPE_CHECKING:
    from docker import DockerClient

RAW = "/raw"
"""Path of the node's raw files in a container."""
ARTIFACTS = "/artifacts"
"""Path of the run's traces and plots in a container."""
DATA = "data"
_CPUS = re.compile(r"\d{1,4}(?:\.\d{1,2})?", re.ASCII)
_GPU = re.compile(r"\d{1,3}|GPU-[0-9a-f-]{8,36}|MIG-[\w/-]{8,60}", re.ASCII)
_LEAST = 0.01
"""Smallest CPU limit of an engine, 1 ms per 100 ms."""
_UP = ("--detach", "--no-build", "--pull", "never")
_HEADER = """The compose file of one run. To start it again, in the folder of this file:
mkdir -p {folders} && docker compose -f compose.yaml up"""


@dataclass(frozen=True)
class Options:
    """Options of target compose. Sizes are written as in Docker, e.g. 512mb."""

    image: str = option("image of the containers, used as is; by default the project's, built if missing or outdated")
    memory: str = option("memory of each container, for example 8gb; 0 for no limit", "0")
    shm_size: str = option("size of /dev/shm in each container, for example 4gb; NCCL needs 32mb per process", "1gb")
    link: str = option("limit to what each container sends, for example 100mbit or 1gbit", axis=BETWEEN_NODES)
    gpus: str = option("GPUs to use, by number or UUID, for example 2,3; by default the first ones")
    cpus: str = option(
        "cores of each container, for example 1; or one number per node, for example 1,0.5", axis=OF_EACH_NODE
    )


@dataclass(frozen=True)
class ComposeSpec(LaunchSpec):
    """A run as a compose file, with paths relative to the run's `request/`."""

    run: Run = field(kw_only=True, repr=False)
    services: dict[str, Any] = field(default_factory=dict)
    file: ClassVar[str] = "compose.yaml"

    def text(self, run_id: str = "") -> str:
        """Return the compose file. `run_id`, if given, names the Compose project."""
        name = {"name": project_of(run_id)} if run_id else {}
        folders = " ".join(f"../raw/{node}" for node in self.services)
        return to_yaml({**name, "services": self.services}, _HEADER.format(folders=folders))


class Compose(Target[ComposeSpec]):
    """Target that runs containers with Docker Compose."""

    name: ClassVar[str] = "compose"
    summary: ClassVar[str] = "containers on this machine's Docker Engine; one for each node of the layout"
    observes: ClassVar[bool] = True
    Options: ClassVar[type] = Options

    def spec(self, run: Run) -> ComposeSpec:
        """Return a compose file with one service per node. Raises RequestError if an option is invalid."""
        parse_link(self.options.link)
        layout = run.cell.layout
        root, program = str(run.experiment.root), run.cell.program
        nodes = node_specs(run.cell, "node0", run.device)
        image = self.options.image
        mounts = {f"{WORKSPACE}/{place}": f"{literal(root)}/{source}" for place, source in _mounts(program).items()}
        gpus = gpus_of(self.options.gpus, device_ids(layout, run.cell.devices_per_process))
        cores = cpus_of(self.options.cpus, layout.nodes)
        services = {
            f"node{number}": service(
                number,
                image=literal(image) if image else default_image(run.experiment.settings.image, run.device),
                command=[literal(word) for word in node.argv],
                environment={**_environment(node.env), "PET_LOG_DIR": RAW, "KIT_ARTIFACTS": ARTIFACTS},
                binds={RAW: f"../raw/node{number}", ARTIFACTS: "../artifacts", **mounts},
                gpus=gpus[number] if run.device == "cuda" else None,
                nodes=layout.nodes,
                shm=self.options.shm_size,
                memory=self.options.memory,
                cpus=cores[number],
            )
            for number, node in enumerate(nodes)
        }
        return ComposeSpec(nodes, root, run.device, asdict(self.options), run=run, services=services)

    def preflight(self, spec: ComposeSpec) -> None:
        """Check the engine, Compose and the options' sizes. On cuda, also check the engine's GPU driver."""
        client = engine.reach()
        engine.check_here(client)
        engine.check_compose()
        most = max(node.processes for node in spec.nodes)
        engine.check_sizes(self.options.shm_size, self.options.memory, most)
        if spec.device == "cuda":
            with engine.asked():
                engine.check_gpus(client)

    def image(self, spec: ComposeSpec, say: Callable[[str], None]) -> dict[str, Any]:
        """Return a description of the chosen image, or else of the project's image, which is built if necessary."""
        with engine.asked():
            return images.ready(engine.reach(), spec.run, say, self.options.image)

    def start(self, spec: ComposeSpec, folder: RunFolder) -> ComposeHandle:
        """Return a handle. Containers are created only in `lines`, so the caller can always `stop` and remove them."""
        return ComposeHandle(engine.reach(), spec, folder, parse_link(self.options.link))

    def once(
        self, spec: ComposeSpec, words: list[str], given: bytes, seconds: float, say: Callable[[str], None]
    ) -> bytes:
        """Run Python in a temporary container of the image, without mounts."""
        image, name = self.image(spec, say), f"kit-once-{secrets.token_hex(8)}"
        gpus = ["--gpus", "all"] if spec.device == "cuda" else []
        sizes = ["--shm-size", self.options.shm_size, "--memory", self.options.memory]
        command = ["docker", "run", "--rm", "-i", "--init", "--name", name, *gpus, *sizes, image["id"], "python"]
        say(f"container of {image['name']}")
        with removing(engine.reach(), name):
            try:
                done = subprocess.run(
                    [*command, *words],
                    input=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=seconds,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise OSError(errno.ETIMEDOUT, f"no answer in {seconds:g} s") from None
        return done.stdout

    def cleanup(self, folder: RunFolder) -> None:
        """End a docker command that still creates containers, and remove the run's containers."""
        end_orphans(folder.path.name, GRACE_SECONDS)
        client, project = engine.reach(), project_of(folder.path.name)
        with engine.asked():
            late_seconds = 0.0 if of_project(client, project) else LATE_SECONDS
            remove_all(client, project, late_seconds)
        take_away(folder)


class ComposeHandle(WorkersHandle):
    """Handle of the containers of one run."""

    nodes: Sequence[ContainerNode]

    def __init__(self, client: DockerClient, spec: ComposeSpec, folder: RunFolder, link: int) -> None:
        nodes = [ContainerNode(number) for number in range(len(spec.nodes))]
        super().__init__(folder, nodes, [node.processes for node in spec.nodes])
        self._client, self._spec, self._link = client, spec, link
        self._project = project_of(folder.path.name)
        self._up: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End and remove the containers."""
        # Compose, a child of the docker command, goes on unless it gets the signal itself.
        end_marked(self._folder.path.name, GRACE_SECONDS)
        if self._up and self._up.stderr and not self._up.stderr.closed:
            self._up.communicate()
        self._end()
        self._finish()

    def _start(self) -> Iterator[None]:
        own = (0, 0) if engine.is_rootless(self._client) else (os.getuid(), os.getgid())
        image = str((self._folder.launch().image or {})["id"])
        variables = {"KIT_UID": str(own[0]), "KIT_GID": str(own[1]), "KIT_IMAGE": image}
        (Path(self._spec.cwd) / "data").mkdir(exist_ok=True)  # a folder created by Docker would belong to root
        outputs = [self._folder.open_agent(node.number) for node in self.nodes]
        # Unlike the saved file, this file has secrets, so it stays in memory.
        with os.fdopen(os.memfd_create("compose.yaml"), "w+b") as file:
            file.write(self._text(image).encode("utf-8", "surrogateescape"))
            file.seek(0)
            places = ["-f", "-", "--project-directory", str(self._folder.path / "request")]
            self._up = subprocess.Popen(
                ["docker", "compose", "--progress", "quiet", *places, "-p", self._project, "up", *_UP],
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

    def _text(self, image: str) -> str:
        spec = self._spec
        if is_observed(spec.run):
            bring(self._folder)
            search = engine.search_path(self._client, image)
            spec = replace(spec, services={name: observed(node, search) for name, node in spec.services.items()})
        return spec.text(self._folder.path.name)

    def _end(self) -> None:
        for node in self.nodes:  # all at once: each may need the whole grace period
            node.stop(GRACE_SECONDS)
        for node in self.nodes:
            node.wait(2 * GRACE_SECONDS)

    def _finish(self) -> Iterable[None]:
        try:
            remove_all(self._client, self._project, LATE_SECONDS if self._up and self._up.returncode else 0.0)
        except OSError as error:
            self.left = f"{error}: containers may be left; remove them with docker compose -p {self._project} down"
        take_away(self._folder)
        return ()


def _environment(variables: dict[str, str]) -> dict[str, str | None]:
    """Return variables for a service. A secret is None, so that Compose takes its value from Compose's environment."""
    return {name: None if value == MASK else literal(value) for name, value in variables.items()}


def _mounts(program: Program) -> dict[str, str]:
    """Return the project folders to mount. The keys are paths in the container, with `:ro` if read-only.

    `data/` is read-only for the project's families, because their data are prepared. Other programs may fetch data
    into it.
    """
    sources = {f"{literal(place)}{READ_ONLY}": literal(place) for place in program.places}
    may_write = program.files and DATA not in program.places
    return {DATA if may_write else f"{DATA}{READ_ONLY}": DATA, **sources}


def gpus_of(text: str, ids: list[list[str]]) -> list[list[str]]:
    """Return the GPUs of each node: the first ones of the engine, or of those that the option names.

    Raises RequestError if the option names too few GPUs, or one twice.
    """
    if not text:
        return ids
    names, needed = [word.strip() for word in text.split(",")], sum(map(len, ids))
    if len({*names}) < len(names) or not all(_GPU.fullmatch(name) for name in names):
        raise RequestError(f"--with gpus={shown(text)}: write different numbers or UUIDs, such as 2,3")
    if len(names) < needed:
        raise RequestError(f"--with gpus={shown(text)}: the layout needs {needed} GPUs")
    return [[names[int(number)] for number in node] for node in ids]


def cpus_of(text: str, nodes: int) -> list[float]:
    """Return the cores of each node. An empty `text` gives 0, which means no limit.

    `text` has one number for all nodes, or at least one per node. Raises RequestError if it is invalid.
    """
    words = text.split(",")
    words = words * nodes if len(words) == 1 else words
    is_wrong = any(not _CPUS.fullmatch(word.strip()) or float(word) < _LEAST for word in words)
    if text and (is_wrong or len(words) < nodes):
        least = f"write numbers from {_LEAST}, such as 1, or one for each of the {nodes} nodes, such as 1,0.5"
        raise RequestError(f"--with cpus={shown(text)}: {least}")
    return [float(word or 0) for word in words[:nodes]]
