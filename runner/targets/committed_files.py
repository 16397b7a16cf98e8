"""The files that are rendered and committed: `compose/`, `k8s/` and `slurm/`.

`containers/rendered.yaml` says which files there are, and of which experiment and layout.
"""

import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from runner.core import yaml_reader
from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.output import write_outputs
from runner.core.text import one_line
from runner.core.yaml_writer import to_yaml
from runner.definitions import experiment as definition
from runner.definitions.choices import Selection
from runner.definitions.plan import Run, make_plan
from runner.definitions.settings import Settings, settings_of
from runner.targets.compose.base_images import read_lock
from runner.targets.compose.service import KIT, WORKSPACE, build, default_image, service
from runner.targets.kubernetes.job import KINDS
from runner.targets.kubernetes.pod_spec import PodOptions
from runner.targets.slurm.script import ScriptOptions, script
from runner.targets.torchrun import device_ids

LISTING = "containers/rendered.yaml"
FOLDERS = {"pytorchjob": "k8s", "trainjob": "k8s/trainer"}
"""The folders of the kinds of jobs that are committed."""


class Rendered(msgspec.Struct, forbid_unknown_fields=True):
    """What one file runs, and what it is."""

    layout: str
    device: Literal["cpu", "cuda"]
    what: str
    experiment: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a layout that is none."""
        Layout.parse(self.layout)


class Compose(msgspec.Struct, forbid_unknown_fields=True):
    """The files of `compose/` by their names, and the experiment that they run unless another one is named."""

    experiment: str
    files: dict[str, Rendered]


class Kubernetes(msgspec.Struct, forbid_unknown_fields=True):
    """The files of `k8s/` by their names, and the job that the kustomization names."""

    default: str
    files: dict[str, Rendered]


class Slurm(msgspec.Struct, forbid_unknown_fields=True):
    """The files of `slurm/` by their names."""

    files: dict[str, Rendered] = {}


class Listing(msgspec.Struct, forbid_unknown_fields=True):
    """Everything that is rendered."""

    compose: Compose
    kubernetes: Kubernetes
    slurm: Slurm = msgspec.field(default_factory=Slurm)


def read_listing(root: Path) -> Listing:
    """Read `containers/rendered.yaml`; RequestError names the key that is wrong."""
    path = root / LISTING
    try:
        return msgspec.convert(yaml_reader.read(path).values, Listing)
    except msgspec.ValidationError as error:
        raise RequestError(one_line(f"{path}: {error}")) from None


def render(root: Path) -> dict[Path, str]:
    """Return every rendered file with its text."""
    settings, bases, listing = settings_of(root), read_lock(root), read_listing(root)
    files = {}
    for name, file in listing.compose.files.items():
        files[f"compose/{name}.yml"] = _compose(name, file, listing.compose.experiment, bases, settings)
    for folder in FOLDERS.values():
        files[f"{folder}/kustomization.yaml"] = _kustomization(folder, listing.kubernetes.default, settings)
    for name, file in listing.kubernetes.files.items():
        run = _run(root, file)
        files |= {f"{folder}/{name}.yaml": _kubernetes(name, run, file, kind) for kind, folder in FOLDERS.items()}
    for name, file in listing.slurm.files.items():
        run = _run(root, file)
        header = f"{file.what} {run.cell}.\n{_BATCH_HEADER.format(name=name)}"
        files[f"slurm/{name}.sbatch"] = script(run, f"kit-{name}", ScriptOptions(), header)
    return {root / name: text for name, text in files.items()}


def differing(root: Path) -> dict[Path, bytes]:
    """Return the files that differ from what is rendered, with what they should be."""
    files = {path: text.encode() for path, text in render(root).items()}
    return {path: text for path, text in files.items() if not path.is_file() or path.read_bytes() != text}


def write(root: Path) -> list[Path]:
    """Write what differs; return which files that were."""
    changed = differing(root)
    write_outputs(changed, below=root)
    return list(changed)


def _compose(name: str, file: Rendered, experiment: str, bases: dict[str, str], settings: Settings) -> str:
    layout = Layout.parse(file.layout)
    data = "data" if settings.image else "data:ro"  # only the kit's own programs are known to fetch nothing
    services = {}
    for node, ids in enumerate(device_ids(layout, 1)):
        place = "" if layout.nodes == 1 else f" --node {node} --master node0"
        words = f"--layout {layout} --device {file.device}{place} -- ${{ARGS:-}}"
        gpus: list[str] | int | None = None
        if file.device == "cuda":  # a count gives every service the same first GPUs
            gpus = len(ids) if layout.nodes == 1 else ids
        services[f"node{node}"] = service(
            node,
            image=default_image(settings.image, file.device),
            command=f"runner node ${{EXPERIMENT:-{experiment}}} {words}",
            environment={},
            binds={f"{WORKSPACE}/results": "../results", f"{WORKSPACE}/{data}": "../data"},
            gpus=gpus,
            nodes=layout.nodes,
            build=build(file.device, bases, settings.dockerfile),
        )
    short = re.sub(r"[^a-z0-9-]+", "-", settings.image.rpartition("/")[2]).strip("-") or "kit"
    document: dict[str, Any] = {"name": f"{short}-{name}", "services": services}
    how = (_HEADER_ELSEWHERE if settings.image else _HEADER).format(name=name, experiment=experiment)
    header = f"{file.what} Layout {layout}.\n{how}"
    return to_yaml(document, header)


def _run(root: Path, file: Rendered) -> Run:
    """Choose what a job runs: the first cell of its layout that is not skipped."""
    experiment = definition.load(definition.find(file.experiment, root), root)
    return make_plan(experiment, Selection(device=file.device, layouts=(file.layout,), repeat=1)).runs[0]


def _kubernetes(name: str, run: Run, file: Rendered, kind: str) -> str:
    documents = KINDS[kind](run, name, PodOptions())
    about = "docs/containers.md of the kit" if run.experiment.settings.image else "k8s/README.md"
    path = f"{FOLDERS[kind]}/{name}.yaml"
    header = f"{file.what} {run.cell}.\n{_JOB_HEADER.format(path=path, about=about)}"
    return "---\n".join(to_yaml(document, "" if number else header) for number, document in enumerate(documents))


def _kustomization(folder: str, default: str, settings: Settings) -> str:
    """Name the image and the namespace in one place; the default job stands for those that are chosen instead."""
    image = settings.image or KIT
    document: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "default",
        "resources": [f"{default}.yaml"],
        "images": [{"name": image, "newName": image}],
    }
    if folder == FOLDERS["trainjob"]:  # by default a TrainJob comes before the TrainingRuntime that it needs
        document["sortOptions"] = {"order": "fifo"}
    return to_yaml(document, _KUSTOMIZATION_HEADER.format(folder=folder))


_JOB_HEADER = """
kubectl apply -f {path}
runner collect {path}

Rendered by `runner render`; {about} says how to bring the image to the cluster."""
_BATCH_HEADER = """
sbatch --partition=... --time=01:00:00 slurm/{name}.sbatch
runner collect slurm/{name}.sbatch

KIT_PYTHON names the Python of an environment that all nodes see. Rendered by `runner render`; docs/clusters.md of the
kit says more."""
_KUSTOMIZATION_HEADER = """The image and the namespace of the jobs, in one place. Name the files that you need under
resources, your registry's image as newName (its tag, gpu or cpu, stays), and then:

kubectl apply -k {folder}

Rendered by `runner render`."""
_HEADER = """
EXPERIMENT={experiment} ARGS="--epochs 1" docker compose -f compose/{name}.yml up

Rendered by `runner render`; README.md here says what can be set."""
_HEADER_ELSEWHERE = """
mkdir -p results data
EXPERIMENT={experiment} ARGS="" docker compose -f compose/{name}.yml up --build
runner summarize results/

Rendered by `runner render`; docs/containers.md of the kit says what can be set."""
