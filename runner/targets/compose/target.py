"""Target `compose`: one container for each node of the layout, on this machine's Docker Engine."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from runner.core.errors import RequestError
from runner.core.text import shown
from runner.core.yaml_writer import to_yaml
from runner.definitions.plan import Run
from runner.definitions.program import Program
from runner.definitions.settings import Settings
from runner.records.folder import RunFolder
from runner.records.schema import BETWEEN_NODES, OF_EACH_NODE
from runner.targets.base import LaunchSpec, Target, option
from runner.targets.children import end_orphans
from runner.targets.compose import engine
from runner.targets.compose import image as images
from runner.targets.compose.containers import belongs_elsewhere, project_of, remove_all, stop_all
from runner.targets.compose.handle import ComposeHandle
from runner.targets.compose.link import Link
from runner.targets.compose.service import READ_ONLY, WORKSPACE, default_image, literal, service
from runner.targets.torchrun import device_ids, node_specs
from runner.targets.worker_logs import GRACE_SECONDS

MOST_NODES = 1000
"""A Linux bridge has 1,024 ports, and every container takes one."""
RAW = "/raw"
"""Where a container finds its own node's folder of the run's raw files."""
DATA = "data"
_CPUS = re.compile(r"\d{1,4}(?:\.\d{1,2})?", re.ASCII)
_LEAST = 0.01
"""What an engine takes at least: a quota of 1 ms in each period of 100 ms."""
ARTIFACTS = "/artifacts"
"""Where it finds the run's folder for traces and plots."""
_HEADER = """One run as it was started. From its own folder it can be started again:
mkdir -p {folders} && docker compose -f compose.yaml up"""


@dataclass(frozen=True)
class Options:
    """The options of target compose; sizes as Docker writes them."""

    image: str = option("image of the containers, as it is; by default this project's, built if it is missing or old")
    memory: str = option("memory of each container, for example 8gb; 0 is no limit", "0")
    shm_size: str = option("size of /dev/shm in each container, for example 4gb; NCCL needs 32mb a process", "1gb")
    link: str = option("slow link: what each container sends at most, for example 100mbit or 1gbit", axis=BETWEEN_NODES)
    cpus: str = option(
        "cores of each container, for example 1; or of one after the other, for example 1,0.5", axis=OF_EACH_NODE
    )


@dataclass(frozen=True)
class ComposeSpec(LaunchSpec):
    """A run as a compose file, whose paths are those of a run's folder."""

    settings: Settings = field(kw_only=True, repr=False)
    folders: list[str] = field(default_factory=list)
    """Where the image holds the programs."""
    mounted: list[str] = field(default_factory=list)
    """What the containers see of the project as it is here, whatever the image holds."""
    services: dict[str, Any] = field(default_factory=dict)
    file: ClassVar[str] = "compose.yaml"

    def text(self, run_id: str = "") -> str:
        """Write the compose file, with the name of the run's project."""
        name = {"name": project_of(run_id)} if run_id else {}
        folders = " ".join(f"../raw/{node}" for node in self.services)
        return to_yaml({**name, "services": self.services}, _HEADER.format(folders=folders))


class Compose(Target[ComposeSpec]):
    """Starts containers by Docker Compose."""

    name: ClassVar[str] = "compose"
    summary: ClassVar[str] = "containers on this machine's Docker Engine; one for each node of the layout"
    Options: ClassVar[type] = Options

    def __init__(self, options: Any = None) -> None:
        """Read the rate of the link and the numbers of cores; RequestError for what is none."""
        super().__init__(options)
        self._cpus = parse_cpus(self.options.cpus)
        self._link = Link.parse(self.options.link) if self.options.link else None

    def spec(self, run: Run) -> ComposeSpec:
        """Build a compose file with one service for each node."""
        layout = run.cell.layout
        if layout.nodes > MOST_NODES:
            raise RequestError(
                f"layout {layout}: an engine's network has room for {MOST_NODES:,} containers: choose a smaller one"
            )
        root, program = str(run.experiment.root), run.cell.program
        nodes = node_specs(run.cell, "node0", run.device)
        image = self.options.image
        mounts = {f"{WORKSPACE}/{place}": f"{literal(root)}/{source}" for place, source in _mounts(program).items()}
        gpus, cores = device_ids(layout, run.cell.devices_per_process), cpus_of(self._cpus, layout.nodes)
        services = {
            f"node{number}": service(
                number,
                image=literal(image) if image else default_image(run.experiment.settings.image, run.device),
                command=[literal(word) for word in node.argv],
                environment={**node.env, "PET_LOG_DIR": RAW, "KIT_ARTIFACTS": ARTIFACTS},
                binds={RAW: f"../raw/node{number}", ARTIFACTS: "../artifacts", **mounts},
                gpus=gpus[number] if run.device == "cuda" else None,
                nodes=layout.nodes,
                shm=self.options.shm_size,
                memory=self.options.memory,
                cpus=cores[number],
            )
            for number, node in enumerate(nodes)
        }
        return ComposeSpec(
            nodes,
            root,
            run.device,
            asdict(self.options),
            settings=run.experiment.settings,
            folders=program.folders,
            mounted=program.places,
            services=services,
        )

    def preflight(self, spec: ComposeSpec) -> None:
        """Look for an engine on this machine, for Compose and, on cuda, for the engine's GPU driver."""
        client = engine.reach()
        engine.check_here(client)
        engine.check_compose()
        with engine.asked():
            most = max(node.processes for node in spec.nodes)
            engine.check_memory(client, self.options.shm_size, self.options.memory, most)
            engine.check_cores(client, self._cpus)
            if spec.device == "cuda":
                engine.check_gpus(client)

    def image(self, spec: ComposeSpec, say: Callable[[str], None]) -> dict[str, Any]:
        """Find the image that was named, or find or build the project's."""
        with engine.asked():
            if self.options.image:
                return images.named(engine.reach(), self.options.image, Path(spec.cwd), spec.device)
            return images.ready(engine.reach(), spec.settings, spec.folders, spec.mounted, spec.device, say)

    def start(self, spec: ComposeSpec, folder: RunFolder) -> ComposeHandle:
        """Prepare the start; the containers are made when the lines are asked for, so that a stop finds them."""
        return ComposeHandle(engine.reach(), spec, folder, self._link)

    def cleanup(self, folder: RunFolder) -> None:
        """End the docker command that still makes containers, then the containers, and remove them.

        A record may be a copy, or come from a stranger: containers that another folder's run has made stay.
        """
        end_orphans(folder.path.name, GRACE_SECONDS)
        client, project = engine.reach(), project_of(folder.path.name)
        with engine.asked():
            if belongs_elsewhere(client, project, folder.path / "request"):
                return
            stop_all(client, project, GRACE_SECONDS)
            remove_all(client, project)


def _mounts(program: Program) -> dict[str, str]:
    """Return what a container sees of the project, by its place there; a place with `:ro` is read only.

    Sources are never written to. A program of the project's families finds its data prepared; any other one may fetch
    its own into `data/`, as it does on this machine.
    """
    sources = {f"{literal(place)}{READ_ONLY}": literal(place) for place in program.places}
    may_write = program.files and DATA not in program.places
    return {DATA if may_write else f"{DATA}{READ_ONLY}": DATA, **sources}


def parse_cpus(text: str) -> list[float]:
    """Read the cores of the nodes, one figure for all of them or one for each; RequestError for what is none."""
    if not text:
        return [0]
    found = [float(word) if _CPUS.fullmatch(word) else 0 for word in (part.strip() for part in text.split(","))]
    if min(found) < _LEAST:
        raise RequestError(
            f"--with cpus={shown(text)}: write numbers of cores from {_LEAST}, for example 1, or 1,0.5 for two nodes"
        )
    return found


def cpus_of(cpus: list[float], nodes: int) -> list[float]:
    """Return the cores of each node; fewer nodes than figures are the first ones. RequestError for too few figures."""
    if len(cpus) == 1:
        return cpus * nodes
    if len(cpus) < nodes:
        given = ",".join(f"{cores:g}" for cores in cpus)
        raise RequestError(f"--with cpus={given}: {nodes} nodes need a figure each, or one for all")
    return cpus[:nodes]
