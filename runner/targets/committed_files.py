"""Render the committed files of `compose/`, `k8s/` and `slurm/`, which `containers/rendered.yaml` lists."""

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
from runner.targets.compose.image import read_lock
from runner.targets.compose.service import KIT, WORKSPACE, build, default_image, service
from runner.targets.kubernetes.job import KINDS, PodOptions
from runner.targets.slurm.script import ScriptOptions, script
from runner.targets.torchrun import device_ids

LISTING = "containers/rendered.yaml"
FOLDERS = {"pytorchjob": "k8s", "trainjob": "k8s/trainer"}
"""The folder of rendered files for each kind of Kubernetes job."""


class Rendered(msgspec.Struct, forbid_unknown_fields=True):
    """The run of a rendered file, and the start of the file's header (`what`)."""

    layout: str
    device: Literal["cpu", "cuda"]
    what: str
    experiment: str = ""


class Group(msgspec.Struct, forbid_unknown_fields=True):
    """Rendered files by name. `default` is the experiment of Compose files, or the file that kustomizations name."""

    files: dict[str, Rendered]
    default: str = ""


class Listing(msgspec.Struct, forbid_unknown_fields=True):
    """The content of `containers/rendered.yaml`."""

    compose: Group
    kubernetes: Group
    slurm: Group


def read_listing(root: Path) -> Listing:
    """Read `containers/rendered.yaml`. Raises RequestError that names an invalid key."""
    path = root / LISTING
    try:
        return msgspec.convert(yaml_reader.read(path).values, Listing)
    except msgspec.ValidationError as error:
        raise RequestError(one_line(f"{path}: {error}")) from None


def render(root: Path) -> dict[Path, str]:
    """Return the text of every rendered file, by path."""
    bases, listing = read_lock(root), read_listing(root)
    compose, kubernetes = listing.compose, listing.kubernetes
    files = {
        f"compose/{name}.yml": _compose(name, file, compose.default, bases) for name, file in compose.files.items()
    }
    for kind, folder in FOLDERS.items():
        files[f"{folder}/kustomization.yaml"] = _kustomization(folder, kubernetes.default)
        for name, file in kubernetes.files.items():
            path = f"{folder}/{name}.yaml"
            files[path] = _kubernetes(name, _run(root, file), file, kind, path)
    for name, file in listing.slurm.files.items():
        run = _run(root, file)
        header = f"{file.what} {run.cell}.\n{_BATCH_HEADER.format(name=name)}"
        files[f"slurm/{name}.sbatch"] = script(run, f"kit-{name}", ScriptOptions(), header)
    return {root / name: text for name, text in files.items()}


def differing(root: Path) -> dict[Path, bytes]:
    """Return the new content of each rendered file that is missing or out of date."""
    files = {path: text.encode() for path, text in render(root).items()}
    return {path: text for path, text in files.items() if not path.is_file() or path.read_bytes() != text}


def write(root: Path) -> list[Path]:
    """Write the rendered files that are missing or out of date, and return their paths."""
    changed = differing(root)
    write_outputs(changed, below=root)
    return list(changed)


def _compose(name: str, file: Rendered, experiment: str, bases: dict[str, str]) -> str:
    layout = Layout.parse(file.layout)
    services = {}
    for node, ids in enumerate(device_ids(layout, 1)):
        place = "" if layout.nodes == 1 else f" --node {node} --master node0"
        words = f"--layout {layout} --device {file.device}{place} -- ${{ARGS:-}}"
        gpus: list[str] | int | None = None
        if file.device == "cuda":  # with a count, every service would get the same GPUs
            gpus = len(ids) if layout.nodes == 1 else ids
        services[f"node{node}"] = service(
            node,
            image=default_image("", file.device),
            command=f"runner node ${{EXPERIMENT:-{experiment}}} {words}",
            environment={},
            binds={f"{WORKSPACE}/results": "../results", f"{WORKSPACE}/data:ro": "../data"},
            gpus=gpus,
            nodes=layout.nodes,
            build=build(file.device, bases),
        )
    header = f"{file.what} Layout {layout}.\n{_HEADER.format(name=name, experiment=experiment)}"
    return to_yaml({"name": f"kit-{name}", "services": services}, header)


def _run(root: Path, file: Rendered) -> Run:
    experiment = definition.load(definition.find(file.experiment, root), root)
    return make_plan(experiment, Selection(device=file.device, layouts=(file.layout,), repeat=1)).runs[0]


def _kubernetes(name: str, run: Run, file: Rendered, kind: str, path: str) -> str:
    documents = KINDS[kind](run, name, PodOptions())
    header = f"{file.what} {run.cell}.\n{_JOB_HEADER.format(path=path)}"
    return "---\n".join(to_yaml(document, "" if number else header) for number, document in enumerate(documents))


def _kustomization(folder: str, default: str) -> str:
    document: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "default",
        "resources": [f"{default}.yaml"],
        "images": [{"name": KIT, "newName": KIT}],
    }
    if folder == FOLDERS["trainjob"]:  # the default order puts a TrainJob before its TrainingRuntime
        document["sortOptions"] = {"order": "fifo"}
    return to_yaml(document, _KUSTOMIZATION_HEADER.format(folder=folder))


_JOB_HEADER = """
kubectl apply -f {path}
runner collect {path}

Rendered by `runner render`; k8s/README.md says how to bring the image to the cluster."""
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
