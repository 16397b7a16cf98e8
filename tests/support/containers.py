"""Copies of this project with odd programs, its two images, and queries of the engine."""

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
    """The built images, and the base image of `gpu`."""

    cpu: str
    gpu: str
    base: str


def copy_project(base: Path) -> Project:
    """Copy the files that git does not ignore, and add the odd programs with their definitions."""
    root = base / WEIRD
    listed = "git ls-files -z --cached --others --exclude-standard".split()
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).is_file():  # git lists removed files too
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    project = Project(root, {"XDG_CACHE_HOME": str(base / "cache"), "COLUMNS": "200"})
    add_odd_programs(project)
    return project


def forget_runs(project: Project) -> None:
    project.results.chmod(0o777)
    for path in project.results.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def build_images(root: Path) -> Images:
    """Build both targets on the bases of the environment or the Dockerfile."""
    names = {target: f"distributed-experiment-kit:{target}" for target in BASES}
    for target, name in names.items():
        build(root, target, name)
    return Images(names["cpu"], names["gpu"], base_image())


def base_image() -> str:
    (default,) = re.findall(r"(?m)^ARG BASE_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text("utf-8"))
    return os.environ.get("BASE_IMAGE") or default


def build(root: Path, target: str, name: str, *words: str) -> None:
    for arg in (BASES[target], "TORCH_CPU"):
        if value := os.environ.get(arg):
            words += ("--build-arg", f"{arg}={value}")
    docker("build", "--quiet", "--target", target, "--tag", name, *words, ".", cwd=root)


def docker(*words: str, cwd: Path | None = None, stdin: str = "") -> str:
    """Return what docker prints, or fail with its last words."""
    env = {**os.environ, "DOCKER_BUILDKIT": "1"}  # Docker's client of 20.10 builds without it
    done = subprocess.run(
        ["docker", *words], cwd=cwd, env=env, input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"docker {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def inspected(name: str, template: str) -> Any:
    """Return a fact of an image; the template prints JSON."""
    return json.loads(docker("image", "inspect", "--format", template, name))


def name_of_its_own(what: str) -> str:
    return f"kit-test-{what}-{uuid.uuid4().hex[:8]}"


def containers_of(compose_project: str, *words: str) -> list[str]:
    """Return the names of a Compose project's containers, started or not."""
    label = f"label={LABEL}={compose_project}"
    return sorted(docker("ps", "--all", "--format", "{{.Names}}", "--filter", label, *words).split())


def running_of(compose_project: str, count: int) -> list[str]:
    """Wait until so many containers of a Compose project run, and return their names."""
    running = "--filter", "status=running"
    found: list[str] = until(lambda: len(names := containers_of(compose_project, *running)) == count and names)
    return found


def left_of(run: Path) -> list[str]:
    """Return the containers and networks of a run."""
    compose_project = f"kit-{run.name.lower()}"
    networks = docker("network", "ls", "--format", "{{.Name}}", "--filter", f"label={LABEL}={compose_project}")
    return containers_of(compose_project) + networks.split()
