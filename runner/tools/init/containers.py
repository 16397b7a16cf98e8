"""What a project needs to run in containers and pods: its image's files, `compose/` and `k8s/`, all as texts.

They are made beside the first definition of a project, or for one that is there.
"""

import json
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import listed, one_line
from runner.core.yaml_writer import to_yaml
from runner.definitions import experiment as definition
from runner.definitions.definition import Experiment
from runner.definitions.plan import make_plan
from runner.definitions.settings import DOCKERFILE, Settings
from runner.targets import committed_files
from runner.targets.committed_files import LISTING, Listing, Rendered, read_listing
from runner.targets.compose.base_images import LOCK, NAMES, read_lock
from runner.tools.init.changes import Change
from runner.tools.init.git import repository
from runner.tools.init.proposal import Proposal, project, slug
from runner.tools.init.reading import Reading
from runner.tools.init.requirements import Requirements, find_requirements
from runner.tools.init.settings_text import added_settings
from runner.tools.init.wheel import make_wheel, wheel_name
from trainkit.files import read_file

BESIDE = "runner.Dockerfile"
"""Our Dockerfile if the project has one."""
IGNORE = ".dockerignore"
"""Also the ending of the name of one that counts for one Dockerfile only, and then before the project's."""
FOLDER = "containers"
"""What the builder needs besides the project: the kit, and how all is installed."""
BASES = dict(zip(NAMES, ("pytorch/pytorch:2.3.1-cuda12.1-cudnn8-runtime", "python:3.11-slim"), strict=True))
TORCH = "torch==2.3.1 torchvision==0.18.1 numpy==1.26.4"
"""What the base for GPUs holds, for the one that has no torch."""
OUTPUTS = ("data", "checkpoints", "lightning_logs", "logs", "mlruns", "outputs", "runs", "wandb")
"""Folders that programs read their data from or write to, unless they are committed."""
ASIDE = ("compose", "k8s", "venv", "env", "node_modules")
_TEMPLATES = Path(__file__).parent / "templates"
_LOCK_ABOUT = """\
# The images that the project's are built on; `runner image pin` adds the digest of what the engine
# holds, `runner render` hands both to the Dockerfile and to compose/.
"""
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
class Additions:
    """What is written, and what a person should know of it."""

    changes: list[Change]
    folders: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def defined(here: Path, name: str | None) -> Experiment | None:
    """Return the experiment that containers are wanted for, if the project has it already.

    RequestError if it has several and none is named.
    """
    settings = project(here, repository(here))
    known = {path.stem: path for path in definition.files(settings.root)} if settings.source else {}
    if not known or (name is not None and name not in known):
        return None
    if name is None and len(known) > 1:
        way_out = f"name one: runner init --containers --name {min(known)}"
        raise RequestError(f"the project has {len(known)} experiments: {way_out}; there are {listed(sorted(known))}")
    return definition.load(definition.find(name or min(known), settings.root), settings.root)


def of_project(experiment: Experiment) -> Additions:
    """Add containers to a project."""
    added, settings = _containers(experiment.settings, experiment)
    if settings:
        added.changes.append(Change(*added_settings(experiment.settings, settings)))
    return added


def of_proposal(proposal: Proposal, reading: Reading, experiment: Experiment) -> Additions:
    """Add containers to a project that does not exist yet, or to its new definition, which is loaded already."""
    if proposal.settings.source is not None:
        added = of_project(experiment)
    else:
        added, settings = _containers(proposal.settings, experiment)
        proposal = replace(proposal, settings=replace(proposal.settings, **settings))  # type: ignore[arg-type]
    return replace(added, changes=[*proposal.changes(reading), *added.changes])


def _containers(settings: Settings, experiment: Experiment) -> tuple[Additions, dict[str, str]]:
    """Write what the containers of a project are made of; a file that is there already is left out, and noted.

    The files start the experiment unless another one is named. Returns what is added, and what the project's settings
    have to say besides.
    """
    root, notes, changes = settings.root, list[str](), list[Change]()
    chosen = replace(settings, image=settings.image or image_name(root))
    # A Dockerfile of the project's own is for something else.
    if not settings.image and settings.dockerfile == DOCKERFILE and os.path.lexists(root / DOCKERFILE):
        notes.append(f"{DOCKERFILE} is there and stays as it is: runs get an image of their own, from {BESIDE}")
        chosen = replace(chosen, dockerfile=BESIDE)
    experiment = replace(experiment, settings=chosen)
    bases = read_lock(root) if os.path.lexists(root / LOCK) else BASES
    listing = read_listing(root) if os.path.lexists(root / LISTING) else _listing(root, experiment, notes)

    def load(name: str) -> Experiment:
        if name == experiment.name:
            return experiment
        return definition.load(definition.find(name, root), root, chosen)

    built = _of_builder(chosen, experiment, bases, notes)
    wanted: dict[str, str | bytes] = {**built, **committed_files.texts(chosen, listing, bases, load)}
    if bases is BASES:
        wanted[LOCK] = _LOCK_ABOUT + "".join(f"{name}={image}\n" for name, image in bases.items())
    if not os.path.lexists(root / LISTING):
        wanted[LISTING] = to_yaml(_plain(listing), _LISTING_ABOUT)
    wanted[f"{FOLDER}/{wheel_name()}"] = make_wheel()
    for path, text in wanted.items():
        if not os.path.lexists(root / path):
            changes.append(Change(root / path, None, text))
        elif not _is(root / path, text):
            notes.append(f"{one_line(path)} is there and stays as it is")
    folders = [root / name for name in ("results", "data") if not (root / name).is_dir()]
    given = {"image": chosen.image, "dockerfile": chosen.dockerfile}
    new = {key: value for key, value in given.items() if value != getattr(settings, key)}
    return Additions(changes, folders, notes), new


def image_name(root: Path) -> str:
    """Make the name of a project's image from that of its folder."""
    return slug(root.resolve().name)[:100] or "project"


def _of_builder(settings: Settings, experiment: Experiment, bases: dict[str, str], notes: list[str]) -> dict[str, str]:
    """Return what the image is built by, unless the project has a Dockerfile for it."""
    if os.path.lexists(settings.root / settings.dockerfile):
        notes.append(f"{one_line(settings.dockerfile)} is there and stays as it is")
        return {}
    official = re.match(r"pytorch/pytorch:(\d+\.\d+\.\d+)", bases["BASE_IMAGE"])  # pytorch/pytorch:2.3.1-cuda12.1
    found = find_requirements(settings.root, torch=official[1] if official else "")
    notes += found.notes
    files = {file for program in experiment.programs().values() for file in program.files}
    own = {file.partition("/")[0] for file in files}
    known = own | {file.partition("/")[0] for file in (*repository(settings.root).committed(), settings.definitions)}
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


def _listing(root: Path, experiment: Experiment, notes: list[str]) -> Listing:
    """List what is rendered: only what the definition can be run as, and nothing that is there."""
    short = slug(experiment.name)
    short = (short if short[:1].isalpha() else f"kit-{short}")[:_LONGEST_NAME].rstrip("-")
    compose = [Rendered(name, experiment.name, *rest) for name, rest in _COMPOSE.items()]
    kubernetes = [
        Rendered(f"{short}-multinode-cpu", experiment.name, "2x1", "cpu", "Two nodes without a GPU."),
        Rendered(f"{short}-multinode", experiment.name, "2x2", "cuda", "Two nodes with two GPUs each."),
    ]
    folders = committed_files.FOLDERS.values()
    compose = [file for file in compose if _can_be(file, [f"compose/{file.name}.yml"], root, experiment, notes)]
    paths = {file.name: [f"{folder}/{file.name}.yaml" for folder in folders] for file in kubernetes}
    kubernetes = [file for file in kubernetes if _can_be(file, paths[file.name], root, experiment, notes)]
    if not compose or not kubernetes:
        raise RequestError(f"{one_line(experiment.path)}: it cannot be run with two nodes: {notes[-1]}")
    return Listing(compose, kubernetes, kubernetes[0].name)


def _can_be(file: Rendered, paths: list[str], root: Path, experiment: Experiment, notes: list[str]) -> bool:
    """Return whether a file can be rendered; a note says why not."""
    if taken := [path for path in paths if not committed_files.is_free(root / path)]:
        notes.append(f"{one_line(taken[0])} is there and stays as it is")
        return False
    try:
        make_plan(experiment, device=file.device, layouts=[file.layout], repeat=1)
    except RequestError as error:
        notes.append(f"no {file.name}: {error}")
        return False
    return True


def _plain(listing: Listing) -> dict[str, Any]:
    """Return the list as `containers/rendered.yaml` has it."""

    def facts(file: Rendered) -> dict[str, str]:
        return {"layout": file.layout, "device": file.device, "what": file.what}

    compose = {file.name: facts(file) for file in listing.compose}
    kubernetes = {file.name: {"experiment": file.experiment, **facts(file)} for file in listing.kubernetes}
    return {
        "compose": {"experiment": listing.compose[0].experiment, "files": compose},
        "kubernetes": {"default": listing.default, "files": kubernetes},
    }


def _is(path: Path, text: str | bytes) -> bool:
    data = text if isinstance(text, bytes) else text.encode()
    try:
        return read_file(path, len(data)) == data
    except OSError:
        return False
