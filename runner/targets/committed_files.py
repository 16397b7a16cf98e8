"""The files that are rendered and committed: `compose/`, `k8s/`, and the Dockerfile's names of its base images.

`rendered.yaml` says which files there are, and of which experiment and layout.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.yaml_writer import to_yaml
from runner.definitions import experiment as definition
from runner.definitions.plan import make_plan
from runner.targets.committed_list import read_listing
from runner.targets.compose.base_images import read_lock
from runner.targets.compose.service import IMAGES, WORKSPACE, build, service
from runner.targets.kubernetes.job import KINDS
from runner.targets.kubernetes.pod_spec import PodOptions
from runner.targets.torchrun import device_ids

if TYPE_CHECKING:
    from pathlib import Path

    from runner.definitions.plan import Run
    from runner.targets.committed_list import Rendered

FOLDERS = {"pytorchjob": "k8s", "indexed": "k8s/no-operator"}


def render(root: Path) -> dict[Path, str]:
    """Return every rendered file with its text."""
    bases, listing = read_lock(root), read_listing(root)
    files = {root / "compose" / f"{one.name}.yml": _compose(one, bases) for one in listing.compose}
    for folder in FOLDERS.values():
        files[root / folder / "kustomization.yaml"] = _kustomization(folder, listing.default)
    for one in listing.kubernetes:
        run = _run(root, one)
        files |= {root / folder / f"{one.name}.yaml": _kubernetes(run, one, kind) for kind, folder in FOLDERS.items()}
    dockerfile = root / "Dockerfile"
    return {**files, dockerfile: _with_bases(dockerfile, bases)}


def write(root: Path) -> list[Path]:
    """Write what differs; return which files that were."""
    changed = {path: text for path, text in render(root).items() if not _is(path, text)}
    for path, text in changed.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return list(changed)


def differing(root: Path) -> list[Path]:
    """Return the files that differ from what would be rendered, and those beside them that are not rendered at all."""
    files = render(root)
    beside = sorted(path for folder in ("compose", *FOLDERS.values()) for path in (root / folder).glob("*.y*ml"))
    strangers = [path for path in beside if path not in files]
    return [path for path, text in files.items() if not _is(path, text)] + strangers


def _is(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False


_SECRET = {"KIT_HANDSHAKE_SECRET": "${KIT_HANDSHAKE_SECRET:-}"}
"""What the nodes of one file prove to each other that they know, if a person sets it."""


def _compose(file: Rendered, bases: dict[str, str]) -> str:
    layout = Layout.parse(file.layout)
    services = {}
    for node, ids in enumerate(device_ids(layout, 1)):
        place = "" if layout.nodes == 1 else f" --node {node} --master node0"
        words = f"--layout {layout} --device {file.device}{place} -- ${{ARGS:-}}"
        gpus: list[str] | int | None = None
        if file.device == "cuda":  # a count gives every service the same first GPUs
            gpus = len(ids) if layout.nodes == 1 else ids
        services[f"node{node}"] = service(
            node,
            device=file.device,
            command=f"runner node ${{EXPERIMENT:-{file.experiment}}} {words}",
            environment={} if layout.nodes == 1 else _SECRET,
            binds={f"{WORKSPACE}/results": "../results", f"{WORKSPACE}/data:ro": "../data"},
            gpus=gpus,
            nodes=layout.nodes,
            build=build(file.device, "..", bases),
        )
    document: dict[str, Any] = {"name": f"kit-{file.name}", "services": services}
    header = f"{file.what} Layout {layout}.\n{_HEADER.format(name=file.name, experiment=file.experiment)}"
    return to_yaml(document, header)


def _run(root: Path, file: Rendered) -> Run:
    """Choose what a job runs: the first cell of its layout that is not skipped."""
    experiment = definition.load(definition.find(file.experiment, root), root)
    return make_plan(experiment, device=file.device, layouts=[file.layout], repeat=1).runs[0]


def _kubernetes(run: Run, file: Rendered, kind: str) -> str:
    documents = KINDS[kind](run, file.name, PodOptions())
    header = f"{file.what} {run.cell}.\n{_JOB_HEADER.format(path=f'{FOLDERS[kind]}/{file.name}.yaml')}"
    return "---\n".join(to_yaml(one, "" if number else header) for number, one in enumerate(documents))


def _kustomization(folder: str, default: str) -> str:
    """Name the image and the namespace in one place; the default job stands for those that are chosen instead."""
    image = IMAGES["cuda"].partition(":")[0]
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "default",
        "resources": [f"{default}.yaml"],
        "images": [{"name": image, "newName": image}],
    }
    return to_yaml(document, _KUSTOMIZATION_HEADER.format(folder=folder))


_JOB_HEADER = """
kubectl apply -f {path}
runner collect {path}

Rendered by `runner render`; k8s/README.md says how to bring the image to the cluster."""
_KUSTOMIZATION_HEADER = """The image and the namespace of the jobs, in one place. Name the files that you need under
resources, your registry's image as newName (its tag, gpu or cpu, stays), and then:

kubectl apply -k {folder}

Rendered by `runner render`."""
_HEADER = """
EXPERIMENT={experiment} ARGS="--epochs 1" docker compose -f compose/{name}.yml up

Rendered by `runner render`; README.md here says what can be set."""


def _with_bases(dockerfile: Path, bases: dict[str, str]) -> str:
    """Return the Dockerfile with the locked names as the defaults of its build arguments."""
    try:
        text = dockerfile.read_text("utf-8")
    except OSError as error:
        msg = f"{dockerfile}: {error.strerror}: a project that is rendered has a Dockerfile"
        raise RequestError(msg) from None
    for name, image in bases.items():
        text, found = re.subn(rf"(?m)^ARG {name}=.*$", f"ARG {name}={image}", text, count=1)
        if not found:
            msg = f"{dockerfile}: no line 'ARG {name}=...' to put the locked base image in"
            raise RequestError(msg)
    return text
