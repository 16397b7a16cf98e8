"""What a project needs to run in containers and pods: its image's files, `compose/` and `k8s/`, all as texts."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.core.yaml_writer import to_yaml
from runner.definitions.definition import Experiment
from runner.definitions.plan import make_plan
from runner.definitions.settings import DOCKERFILE, Settings
from runner.targets import committed_files
from runner.targets.committed_files import LISTING, Listing, Rendered, read_listing
from runner.targets.compose.base_images import LOCK, NAMES, read_lock
from runner.tools.init.requirements import Requirements, find_requirements
from runner.tools.init.wheel import make_wheel, wheel_name
from trainkit.files import read_file

BESIDE = "runner.Dockerfile"
"""Our Dockerfile if the project has one."""
IGNORE = ".dockerignore"
"""Also the ending of the name of one that counts for one Dockerfile only, and then before the project's."""
FOLDER = "containers"
"""What the builder needs besides the project: the kit, and how all is installed."""
BASES = dict(
    zip(NAMES, ("pytorch/pytorch:2.3.1-cuda12.1-cudnn8-runtime", "python:3.11-slim"), strict=True),
)
TORCH = "torch==2.3.1 torchvision==0.18.1 numpy==1.26.4"
"""What the base for GPUs holds, for the one that has no torch."""
OUTPUTS = ("data", "checkpoints", "lightning_logs", "logs", "mlruns", "outputs", "runs", "wandb")
"""Folders that programs read their data from or write to, unless they are committed."""
ASIDE = ("compose", "k8s", "venv", "env", "node_modules")
_TEMPLATES = Path(__file__).parent / "templates"
_LOCK_ABOUT = """The images that the project's are built on; `runner image pin` adds the digest of what the engine
holds, `runner render` hands both to the Dockerfile and to compose/."""
_LISTING_ABOUT = "What `runner render` writes: the files of compose/ and of k8s/ with its folders, by their names."
_COMPOSE = {
    "1gpu": ("1x1", "cuda", "One process on one GPU."),
    "2gpu": ("1x2", "cuda", "Two processes on two GPUs."),
    "1cpu": ("1x1", "cpu", "One process, no GPU."),
    "2cpu": ("1x2", "cpu", "Two processes, no GPU."),
    "2node-cpu": ("2x1", "cpu", "Two nodes, a container each, no GPU."),
}
_LONGEST_NAME = 30
_GIT = "RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*"


@dataclass(frozen=True)
class Containers:
    """What is added to a project.

    Args:
        files: the text of each new file, or its bytes, by its path from the project's folder.
        folders: folders that have to be there when a container starts.
        settings: what the project's settings have to say besides.
        notes: what a person should know, a line each.
    """

    files: dict[str, str | bytes]
    folders: list[str]
    settings: dict[str, str]
    notes: list[str]


def containers(settings: Settings, experiment: Experiment, committed: list[str]) -> Containers:
    """Write what the containers of a project are made of; a file that is there already is left out, and noted.

    Args:
        settings: the project's; an image that they name keeps its name.
        experiment: what the files start unless another experiment is named.
        committed: the files that git knows, from the project's folder.
    """
    root, notes = settings.root, list[str]()
    chosen = replace(settings, image=settings.image or image_name(root), dockerfile=_dockerfile(settings, notes))
    experiment = replace(experiment, settings=chosen)
    bases = read_lock(root) if os.path.lexists(root / LOCK) else BASES
    listing = read_listing(root) if os.path.lexists(root / LISTING) else _listing(root, experiment, notes)

    def load(name: str) -> Experiment:
        return experiment if name == experiment.name else _load(name, chosen)

    wanted = {
        **_of_builder(chosen, experiment, bases, committed, notes),
        **committed_files.texts(chosen, listing, bases, load),
    }
    if bases is BASES:
        wanted[LOCK] = _commented(_LOCK_ABOUT) + "".join(f"{name}={image}\n" for name, image in bases.items())
    if not os.path.lexists(root / LISTING):
        wanted[LISTING] = to_yaml(_plain(listing), _LISTING_ABOUT)
    files: dict[str, str | bytes] = {**wanted, f"{FOLDER}/{wheel_name()}": make_wheel()}
    files = {path: text for path, text in files.items() if _is_new(root, path, text, notes)}
    said = {"image": chosen.image, "dockerfile": chosen.dockerfile}
    had = {"image": settings.image, "dockerfile": settings.dockerfile}
    new = {key: value for key, value in said.items() if value != had[key]}
    return Containers(files, [name for name in ("results", "data") if not (root / name).is_dir()], new, notes)


def image_name(root: Path) -> str:
    """Make the name of a project's image from that of its folder."""
    name = re.sub(r"[^a-z0-9]+", "-", root.resolve().name.lower().encode("ascii", "ignore").decode()).strip("-")
    return name[:100] or "project"


def _dockerfile(settings: Settings, notes: list[str]) -> str:
    """Choose the file that the image is built from; one of the project's own is for something else."""
    if settings.image or settings.dockerfile != DOCKERFILE or not os.path.lexists(settings.root / DOCKERFILE):
        return settings.dockerfile
    notes.append(f"{DOCKERFILE} is there and stays as it is: runs get an image of their own, from {BESIDE}")
    return BESIDE


def _of_builder(
    settings: Settings, experiment: Experiment, bases: dict[str, str], committed: list[str], notes: list[str]
) -> dict[str, str]:
    """Return what the image is built by, unless the project has a Dockerfile for it."""
    if os.path.lexists(settings.root / settings.dockerfile):
        notes.append(f"{one_line(settings.dockerfile)} is there and stays as it is")
        return {}
    found = find_requirements(settings.root, _torch_of(bases))
    notes += found.notes
    files = {file for program in experiment.programs().values() for file in program.files}
    own = {file.partition("/")[0] for file in files}
    known = own | {file.partition("/")[0] for file in (*committed, settings.definitions)}
    outputs = [name for name in OUTPUTS if name not in known] + [name for name in ASIDE if name not in own]
    left_out = _template("dockerignore") + "".join(f"{name}\n" for name in outputs)
    path = settings.root / IGNORE
    free = settings.dockerfile == DOCKERFILE and (not os.path.lexists(path) or _is(path, left_out))
    return {
        settings.dockerfile: _dockerfile_text(bases, found),
        IGNORE if free else f"{settings.dockerfile}{IGNORE}": left_out,
        f"{FOLDER}/install.sh": _template("install.sh"),
    }


def _dockerfile_text(bases: dict[str, str], requirements: Requirements) -> str:
    """Write both stages: a stage inherits its settings from its base only."""
    copied = [f"COPY {json.dumps([file, file])}" for file in requirements.files]
    install = f"RUN chmod 0777 . && sh {FOLDER}/install.sh{''.join(f' {word}' for word in requirements.words)}"
    everything = "COPY --chmod=0777 . ./"
    steps = [everything, install] if requirements.whole else [f"COPY {FOLDER} {FOLDER}", *copied, install, everything]
    steps = [_GIT, *steps] if requirements.git else steps
    head = _Text(_template("Dockerfile")).substitute(gpu_base=bases["BASE_IMAGE"], cpu_base=bases["CPU_BASE_IMAGE"])
    stage = _Text(_template("stage"))
    named = (("cpu", "CPU_BASE_IMAGE"), ("gpu", "BASE_IMAGE"))
    stages = [stage.substitute(stage=name, base=base, torch=TORCH, steps="\n".join(steps)) for name, base in named]
    return head + "".join(stages)


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text("utf-8")


class _Text(Template):
    """A text with places for values, as `@name`; dollars are the builder's."""

    delimiter = "@"


def _torch_of(bases: dict[str, str]) -> str:
    """Read the version of torch from the name of its official image."""
    found = re.match(r"pytorch/pytorch:(\d+\.\d+\.\d+)", bases["BASE_IMAGE"])
    return found[1] if found else ""


def _listing(root: Path, experiment: Experiment, notes: list[str]) -> Listing:
    """List what is rendered: only what the definition can be run as, and nothing that is there."""
    short = re.sub(r"[^a-z0-9]+", "-", experiment.name.lower()).strip("-")
    short = (short if short[:1].isalpha() else f"kit-{short}")[:_LONGEST_NAME].rstrip("-")
    compose = [Rendered(name, experiment.name, *rest) for name, rest in _COMPOSE.items()]
    kubernetes = [
        Rendered(f"{short}-multinode-cpu", experiment.name, "2x1", "cpu", "Two nodes without a GPU."),
        Rendered(f"{short}-multinode", experiment.name, "2x2", "cuda", "Two nodes with two GPUs each."),
    ]
    folders = committed_files.FOLDERS.values()
    compose = [one for one in compose if _can_be(one, [f"compose/{one.name}.yml"], root, experiment, notes)]
    paths = {one.name: [f"{folder}/{one.name}.yaml" for folder in folders] for one in kubernetes}
    kubernetes = [one for one in kubernetes if _can_be(one, paths[one.name], root, experiment, notes)]
    if not compose or not kubernetes:
        raise RequestError(f"{one_line(experiment.path)}: it cannot be run with two nodes: {notes[-1]}")
    return Listing(compose, kubernetes, kubernetes[0].name)


def _can_be(one: Rendered, paths: list[str], root: Path, experiment: Experiment, notes: list[str]) -> bool:
    """Whether a file can be rendered; a note says why not."""
    if taken := [path for path in paths if not committed_files.is_free(root / path)]:
        notes.append(f"{one_line(taken[0])} is there and stays as it is")
        return False
    try:
        make_plan(experiment, device=one.device, layouts=[one.layout], repeat=1)
    except RequestError as error:
        notes.append(f"no {one.name}: {error}")
        return False
    return True


def _plain(listing: Listing) -> dict[str, Any]:
    """Return the list as `rendered.yaml` has it."""

    def facts(one: Rendered) -> dict[str, str]:
        return {"layout": one.layout, "device": one.device, "what": one.what}

    return {
        "compose": {
            "experiment": listing.compose[0].experiment,
            "files": {one.name: facts(one) for one in listing.compose},
        },
        "kubernetes": {
            "default": listing.default,
            "files": {one.name: {"experiment": one.experiment, **facts(one)} for one in listing.kubernetes},
        },
    }


def _load(name: str, settings: Settings) -> Experiment:
    from runner.definitions import experiment as definition  # noqa: PLC0415 - for a list of a person's own

    return definition.load(definition.find(name, settings.root), settings.root, settings)


def _is_new(root: Path, name: str, text: str | bytes, notes: list[str]) -> bool:
    """Whether there is no such file; one that differs is noted."""
    if not os.path.lexists(root / name):
        return True
    if not _is(root / name, text):
        notes.append(f"{one_line(name)} is there and stays as it is")
    return False


def _is(path: Path, text: str | bytes) -> bool:
    data = text if isinstance(text, bytes) else text.encode()
    try:
        return read_file(path, len(data)) == data
    except OSError:
        return False


def _commented(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())
