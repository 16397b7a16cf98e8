"""A copy of this project with odd programs in it, its two images, and what the tests that start containers share."""

import json
import os
import re
import shutil
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.launches import until
from tests.support.odd import add_odd_programs
from tests.support.projects import ROOT, WEIRD, Project

BASES = {"cpu": "CPU_BASE_IMAGE", "gpu": "BASE_IMAGE"}
LABEL = "com.docker.compose.project"
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Images:
    """What was built, and of what."""

    cpu: str
    gpu: str
    base: str
    """The image that `gpu` is built on."""


def copy_project(base: Path) -> Project:
    """Copy the files that are or could be committed, as they are now, and add `experiments/odd/` with definitions."""
    root = base / WEIRD
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():  # one that was removed is still listed
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    project = Project(root, {"XDG_CACHE_HOME": str(base / "cache"), "COLUMNS": "200"})
    add_odd_programs(project)
    return project


def forget_runs(project: Project) -> None:
    """Remove what earlier tests have left in the results."""
    project.results.chmod(0o777)
    for path in project.results.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def build_images(root: Path) -> Images:
    """Build both targets as a person does, on the bases that the environment names, or the Dockerfile's."""
    names = {target: f"distributed-experiment-kit:{target}" for target in BASES}
    for target, name in names.items():
        build(root, target, name)
    return Images(names["cpu"], names["gpu"], base_image())


def base_image() -> str:
    """The image that `gpu` is built on."""
    default = re.search(r"(?m)^ARG BASE_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text("utf-8"))
    assert default
    return os.environ.get(BASES["gpu"]) or default[1]


def build(root: Path, target: str, name: str, *words: str) -> None:
    for arg in (BASES[target], "TORCH_CPU"):
        if value := os.environ.get(arg):
            words += ("--build-arg", f"{arg}={value}")
    docker("build", "--quiet", "--target", target, "--tag", name, *words, ".", cwd=root)


def docker(*words: str, cwd: Path | None = None, stdin: str = "") -> str:
    """Run docker as a person does; what it printed, or a failure with its last words."""
    environment = {**os.environ, "DOCKER_BUILDKIT": "1"}  # Docker's own client of 20.10 builds without it
    done = subprocess.run(
        ["docker", *words],
        cwd=cwd,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (
        f"docker {' '.join(words)}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    )
    return done.stdout


def inspected(name: str, template: str) -> Any:
    """One fact of an image; the template prints JSON."""
    return json.loads(docker("image", "inspect", "--format", template, name))


def name_of_its_own(what: str) -> str:
    """A name that no test beside this one uses."""
    return f"kit-test-{what}-{uuid.uuid4().hex[:8]}"


def containers_of(compose_project: str) -> list[str]:
    """The names of the containers of a project of Compose, also of those that are made and not started."""
    words = ["ps", "--all", "--format", "{{.Names}}", "--filter", f"label={LABEL}={compose_project}"]
    return sorted(docker(*words).split())


def running_of(compose_project: str, count: int) -> list[str]:
    """The names of a project's containers, once so many of them run."""
    words = ["ps", "--format", "{{.Names}}", "--filter", f"label={LABEL}={compose_project}"]
    found = until(lambda: len(names := docker(*words, "--filter", "status=running").split()) == count and names)
    return sorted(found)


def networks_of(compose_project: str) -> list[str]:
    """The names of the networks of a project of Compose."""
    return docker("network", "ls", "--format", "{{.Name}}", "--filter", f"label={LABEL}={compose_project}").split()


def left_of(run: Path) -> list[str]:
    """Containers and networks of a run of the kit."""
    name = f"kit-{run.name.lower()}"
    return containers_of(name) + networks_of(name)
