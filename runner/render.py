"""The files that are rendered and committed: `compose/`, `k8s/`, and the Dockerfile's names of its base images."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from runner import definition
from runner.baseimages import read_lock
from runner.composefile import IMAGES, WORKSPACE, build, service
from runner.errors import RequestError
from runner.layout import Layout
from runner.manifest import to_yaml
from runner.plan import make_plan
from runner.podfile import KINDS, Wants

if TYPE_CHECKING:
    from pathlib import Path

COMPOSE = {
    "1gpu": ("1x1", "cuda", "One process on one GPU."),
    "2gpu": ("1x2", "cuda", "Two processes on two GPUs."),
    "4gpu": ("1x4", "cuda", "Four processes on four GPUs."),
    "8gpu": ("1x8", "cuda", "Eight processes on eight GPUs."),
    "1cpu": ("1x1", "cpu", "One process, no GPU."),
    "2cpu": ("1x2", "cpu", "Two processes, no GPU."),
    "8cpu": ("1x8", "cpu", "Eight processes, no GPU."),
    "2node-cpu": ("1+2", "cpu", "Two unlike nodes, a container each: one process and two, no GPU."),
    "2node-gpu": ("2x1", "cuda", "Two nodes, a container each: one process on a GPU of its own."),
}
"""Each file of `compose/`: its layout, its device, and what it is."""

KUBERNETES = {
    "mnist-multinode": ("mnist", "2x2", "cuda", "MNIST on two nodes with two GPUs each."),
    "bert-multinode": ("bert", "2x2", "cuda", "BERT on two nodes with two GPUs each."),
    "mnist-unlike-nodes": ("mnist", "2+3", "cuda", "MNIST on two unlike nodes: two GPUs on one, three on the other."),
    "toy-multinode": ("toy", "2x1", "cuda", "A tiny net on two nodes with a GPU each: do they find each other?"),
    "mnist-multinode-cpu": ("quickstart", "2x1", "cpu", "Digits on two nodes without a GPU: is the cluster well?"),
}
"""Each file of `k8s/`, and of `k8s/no-operator/`: its experiment, layout, device, and what it is."""
FOLDERS = {"pytorchjob": "k8s", "indexed": "k8s/no-operator"}


def render(root: Path) -> dict[Path, str]:
    """Return every rendered file with its text."""
    bases = read_lock(root)
    files = {root / "compose" / f"{name}.yml": _compose(name, bases) for name in COMPOSE}
    for kind, folder in FOLDERS.items():
        files |= {root / folder / f"{name}.yaml": _kubernetes(root, name, kind) for name in KUBERNETES}
        files[root / folder / "kustomization.yaml"] = _kustomization(folder)
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
    """Return the files that are not what would be rendered; others beside them that nobody renders are among them."""
    files = render(root)
    beside = sorted(path for folder in ("compose", *FOLDERS.values()) for path in (root / folder).glob("*.y*ml"))
    strangers = [path for path in beside if path not in files]
    return [path for path, text in files.items() if not _is(path, text)] + strangers


def _is(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False


def _compose(name: str, bases: dict[str, str]) -> str:
    words, device, what = COMPOSE[name]
    layout = Layout.parse(words)
    services = {}
    for node, processes in enumerate(layout.processes):
        place = "" if layout.nodes == 1 else f" --node {node} --master node0"
        first = layout.first_rank(node)
        gpus: list[str] | int | None = None
        if device == "cuda":  # a count gives every service the same first GPUs
            own = [str(number) for number in range(first, first + processes)]
            gpus = processes if layout.nodes == 1 else own
        services[f"node{node}"] = service(
            node,
            device=device,
            command=f"runner node ${{EXPERIMENT:-mnist}} --layout {layout} --device {device}{place} -- ${{ARGS:-}}",
            environment={},
            binds={f"{WORKSPACE}/results": "../results", f"{WORKSPACE}/data:ro": "../data"},
            gpus=gpus,
            nodes=layout.nodes,
            build=build(device, "..", bases),
        )
    document: dict[str, Any] = {"name": f"kit-{name}", "services": services}
    return to_yaml(document, f"{what} Layout {layout}.\n{_HEADER.format(name=name)}")


def _kubernetes(root: Path, name: str, kind: str) -> str:
    """Render a job: the first cell of its layout that is not skipped."""
    experiment, layout, device, what = KUBERNETES[name]
    defined = definition.load(definition.find(experiment, root), root)
    run = make_plan(defined, device=device, layouts=[layout], repeat=1).runs[0]
    documents = KINDS[kind](run, name, Wants())
    header = f"{what} {run.cell}.\n{_JOB_HEADER.format(path=f'{FOLDERS[kind]}/{name}.yaml')}"
    return "---\n".join(to_yaml(one, "" if number else header) for number, one in enumerate(documents))


def _kustomization(folder: str) -> str:
    """Name the image and the namespace in one place; the smallest job stands for those that a person wants."""
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "default",
        "resources": ["mnist-multinode-cpu.yaml"],
        "images": [{"name": IMAGES["cuda"].partition(":")[0], "newName": IMAGES["cuda"].partition(":")[0]}],
    }
    return to_yaml(document, _KUSTOMIZATION_HEADER.format(folder=folder))


_JOB_HEADER = """
kubectl apply -f {path}
runner collect {path}

Rendered by `runner render`; k8s/README.md says how to bring the image to the cluster."""
_KUSTOMIZATION_HEADER = """The image and the namespace of the jobs, in one place. Name the files that you want under
resources, your registry's image as newName (its tag, gpu or cpu, stays), and then:

kubectl apply -k {folder}

Rendered by `runner render`."""
_HEADER = """
EXPERIMENT=mnist ARGS="--epochs 1" docker compose -f compose/{name}.yml up

Rendered by `runner render`; README.md here says what can be set."""


def _with_bases(dockerfile: Path, bases: dict[str, str]) -> str:
    """Return the Dockerfile with the locked names as the defaults of its build arguments."""
    try:
        text = dockerfile.read_text("utf-8")
    except OSError as error:
        msg = f"{dockerfile}: {error.strerror}: a rendered project has a Dockerfile"
        raise RequestError(msg) from None
    for name, image in bases.items():
        text, found = re.subn(rf"(?m)^ARG {name}=.*$", f"ARG {name}={image}", text, count=1)
        if not found:
            msg = f"{dockerfile}: no line 'ARG {name}=...' to put the locked base image in"
            raise RequestError(msg)
    return text
