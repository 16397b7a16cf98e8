"""The files that are rendered and committed: `compose/`, `k8s/`, `slurm/`, and the bases of the Dockerfile.

`containers/rendered.yaml` says which files there are, and of which experiment and layout. Whatever else a project has
in these folders is its own.
"""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.core import yaml_reader
from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.output import write_outputs
from runner.core.text import listed, one_line
from runner.core.yaml_reader import Document
from runner.core.yaml_writer import to_yaml
from runner.definitions import experiment as definition
from runner.definitions.experiment import Experiment
from runner.definitions.plan import Run, make_plan
from runner.definitions.settings import Settings, settings_of
from runner.targets.compose.base_images import read_lock
from runner.targets.compose.service import KIT, WORKSPACE, build, default_image, service
from runner.targets.kubernetes.job import KINDS
from runner.targets.kubernetes.pod_spec import PodOptions
from runner.targets.slurm.script import ScriptOptions, script
from runner.targets.torchrun import device_ids
from trainkit.files import read_file

LISTING = "containers/rendered.yaml"
MARK = "Rendered by `runner render`"
"""What every rendered file says of itself."""
LARGEST_BYTES = 1_000_000
KUSTOMIZATION = "kustomization.yaml"
_KEYS = ("layout", "device", "what")
_PARTS = {"compose": ("experiment",), "kubernetes": ("default",), "slurm": ()}
"""The parts of `rendered.yaml`, each with what it says beside its files; the last may be absent."""
_DEVICES = ("cpu", "cuda")
FOLDERS = {"pytorchjob": "k8s", "trainjob": "k8s/trainer", "indexed": "k8s/no-operator"}


@dataclass(frozen=True)
class Rendered:
    """One file: its name without ending, what it is, and what it runs."""

    name: str
    experiment: str
    layout: str
    device: str
    what: str


@dataclass(frozen=True)
class Listing:
    """Everything that is rendered."""

    compose: list[Rendered]
    kubernetes: list[Rendered]
    default: str
    """The job that the kustomization names."""
    slurm: list[Rendered] = field(default_factory=list)


def render(root: Path) -> dict[Path, str]:
    """Return every rendered file with its text."""
    settings, bases, listing = settings_of(root), read_lock(root), read_listing(root)

    def load(name: str) -> Experiment:
        return definition.load(definition.find(name, root), root)

    files = {root / name: text for name, text in texts(settings, listing, bases, load).items()}
    dockerfile = root / settings.dockerfile
    return {**files, dockerfile: _with_bases(dockerfile, bases)}


def texts(
    settings: Settings, listing: Listing, bases: dict[str, str], load: Callable[[str], Experiment]
) -> dict[str, str]:
    """Return the text of every file in `compose/`, `k8s/` and `slurm/`, by its path from the project's folder.

    `bases` has the base image of each build argument, and `load` returns the experiment of a name. A kustomization that
    a person wrote is left out: a folder has one.
    """
    files = {f"compose/{file.name}.yml": _compose(file, bases, settings) for file in listing.compose}
    for folder in FOLDERS.values():
        if is_free(settings.root / folder / KUSTOMIZATION):
            files[f"{folder}/{KUSTOMIZATION}"] = _kustomization(folder, listing.default, settings)
    for file in listing.kubernetes:
        run = _run(load(file.experiment), file)
        files |= {f"{folder}/{file.name}.yaml": _kubernetes(run, file, kind) for kind, folder in FOLDERS.items()}
    for file in listing.slurm:
        run = _run(load(file.experiment), file)
        header = f"{file.what} {run.cell}.\n{_BATCH_HEADER.format(name=file.name)}"
        files[f"slurm/{file.name}.sbatch"] = script(run, f"kit-{file.name}", ScriptOptions(), header)
    return files


def is_free(path: Path) -> bool:
    """Return whether a file can be rendered here: there is none, or it was rendered before."""
    return not os.path.lexists(path) or is_rendered(path)


def is_rendered(path: Path) -> bool:
    """Return whether a file says that it was rendered."""
    return MARK.encode() in _bytes(path)


def _bytes(path: Path) -> bytes:
    try:
        return read_file(path, LARGEST_BYTES)
    except OSError:
        return b""


def write(root: Path) -> list[Path]:
    """Write what differs; return which files that were. RequestError if one of them is a person's own."""
    changed = {path: text.encode() for path, text in render(root).items() if text.encode() != _bytes(path)}
    dockerfile = root / settings_of(root).dockerfile
    if strange := [path for path in changed if path != dockerfile and not is_free(path)]:
        names = listed(one_line(path.relative_to(root)) for path in strange)
        raise RequestError(f"{names}: not a rendered file: move it, or take its name out of {LISTING}")
    write_outputs(changed, below=root)
    return list(changed)


def differing(root: Path) -> list[Path]:
    """Return the files that differ from what would be rendered, and those that are no longer rendered."""
    files = render(root)
    beside = [path for folder in ("compose", *FOLDERS.values()) for path in sorted((root / folder).glob("*.y*ml"))]
    beside += sorted((root / "slurm").glob("*.sbatch"))
    forgotten = [path for path in beside if path not in files and is_rendered(path)]
    return [path for path, text in files.items() if text.encode() != _bytes(path)] + forgotten


_SECRET = {"KIT_HANDSHAKE_SECRET": "${KIT_HANDSHAKE_SECRET:-}"}
"""What the nodes of one file prove to each other that they know, if a person sets it."""


def _compose(file: Rendered, bases: dict[str, str], settings: Settings) -> str:
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
            command=f"runner node ${{EXPERIMENT:-{file.experiment}}} {words}",
            environment={} if layout.nodes == 1 else _SECRET,
            binds={f"{WORKSPACE}/results": "../results", f"{WORKSPACE}/{data}": "../data"},
            gpus=gpus,
            nodes=layout.nodes,
            build=build(file.device, bases, settings.dockerfile),
        )
    short = re.sub(r"[^a-z0-9-]+", "-", settings.image.rpartition("/")[2]).strip("-") or "kit"
    document: dict[str, Any] = {"name": f"{short}-{file.name}", "services": services}
    how = (_HEADER_ELSEWHERE if settings.image else _HEADER).format(name=file.name, experiment=file.experiment)
    header = f"{file.what} Layout {layout}.\n{how}"
    return to_yaml(document, header)


def _run(experiment: Experiment, file: Rendered) -> Run:
    """Choose what a job runs: the first cell of its layout that is not skipped."""
    return make_plan(experiment, device=file.device, layouts=[file.layout], repeat=1).runs[0]


def _kubernetes(run: Run, file: Rendered, kind: str) -> str:
    documents = KINDS[kind](run, file.name, PodOptions())
    about = "docs/containers.md of the kit" if run.experiment.settings.image else "k8s/README.md"
    path = f"{FOLDERS[kind]}/{file.name}.yaml"
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


def _with_bases(dockerfile: Path, bases: dict[str, str]) -> str:
    """Return the Dockerfile with the locked names as the defaults of its build arguments, if it has any."""
    try:
        text = dockerfile.read_text("utf-8")
    except OSError as error:
        raise RequestError(f"{dockerfile}: {error.strerror}: a project that is rendered has a Dockerfile") from None
    if not re.search(rf"(?m)^ARG ({'|'.join(bases)})=", text):
        return text
    for name, image in bases.items():
        text, found = re.subn(rf"(?m)^ARG {name}=.*$", f"ARG {name}={image}", text, count=1)
        if not found:
            raise RequestError(f"{dockerfile}: no line 'ARG {name}=...' to put the locked base image in")
    return text


def read_listing(root: Path) -> Listing:
    """Read `containers/rendered.yaml`; RequestError with file:line for whatever is wrong with it."""
    document = yaml_reader.read(root / LISTING)
    values = _mapping(document, _PARTS)
    for part, words in _PARTS.items():
        if words or part in values:
            _mapping(document, (*words, "files"), part)
            for word in words:
                _text(document, part, word)
            _mapping(document, None, part, "files")
    compose, kubernetes = values["compose"], values["kubernetes"]
    listing = Listing(
        [_rendered(document, compose["experiment"], "compose", name) for name in compose["files"]],
        [_rendered(document, None, "kubernetes", name) for name in kubernetes["files"]],
        kubernetes["default"],
        [_rendered(document, None, "slurm", name) for name in values.get("slurm", {}).get("files", ())],
    )
    if listing.default not in kubernetes["files"]:
        document.fail(f"'{listing.default}' is not one of the files", "kubernetes", "default")
    return listing


def _at(document: Document, *path: str) -> Any:
    value = document.values
    for step in path:
        value = value.get(step)
    return value


def _mapping(document: Document, known: Iterable[str] | None, *path: str) -> dict[str, Any]:
    """Return the mapping at a place, which has no keys but the known ones; None for any."""
    value = _at(document, *path)
    if not isinstance(value, dict):
        document.fail(f"'{path[-1] if path else LISTING}' has to be a mapping", *path)
    if known is not None:
        document.only_keys(known, *path)
    return value


def _text(document: Document, *path: str) -> str:
    value = _at(document, *path)
    if not isinstance(value, str):
        document.fail(f"'{path[-1]}' is missing, or not a text", *path)
    return value


def _rendered(document: Document, experiment: str | None, part: str, name: str) -> Rendered:
    place = (part, "files", name)
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,49}", name):
        document.fail(f"'{name}': a file's name has small letters, digits and hyphens", *place)
    _mapping(document, _KEYS if experiment else ("experiment", *_KEYS), *place)
    layout, device, what = (_text(document, *place, key) for key in _KEYS)
    try:
        Layout.parse(layout)
    except ValueError as error:
        document.fail(str(error), *place, "layout")
    if device not in _DEVICES:
        document.fail(f"device '{device}' is not one of {', '.join(_DEVICES)}", *place, "device")
    return Rendered(name, experiment or _text(document, *place, "experiment"), layout, device, what)
