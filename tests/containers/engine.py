"""What the tests that start containers share: what is left of a run, and a record in short."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

from tests.containers.conftest import docker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.projects import Ended, Project

LABEL = "com.docker.compose.project"
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def left_behind() -> list[str]:
    """Containers and networks of any run of the kit, by the names that its projects have."""
    containers = docker("ps", "--all", "--format", f'{{{{.Label "{LABEL}"}}}}').split()
    networks = docker("network", "ls", "--format", f'{{{{.Label "{LABEL}"}}}}').split()
    return [name for name in containers + networks if name.startswith("kit-")]


def run(project: Project, *words: str, env: dict[str, str] | None = None) -> tuple[Ended, dict[str, Any]]:
    """Run one cell on target compose, and return the command's end and the new record."""
    before = set(project.results.glob("*/*/run.json"))
    done = project.runner("run", *words, "--on", "compose", "--repeat", "1", env=env, within=400)
    (new,) = set(project.results.glob("*/*/run.json")) - before
    return done, project.record(new.parent)


def compose(project: Project, file: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Call `docker compose -f compose/<file>.yml` in the project's folder, as a person does; stdout is all of it."""
    done = subprocess.run(
        ["docker", "compose", "-f", f"compose/{file}.yml", *words],
        cwd=project.root,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
    )
    done.stdout = CONTROL.sub("", done.stdout)  # Compose clears the terminal's line even where there is none
    return done


def curve(record: dict[str, Any]) -> list[str]:
    """The losses of a run, exactly."""
    return [epoch["loss_hex"] for epoch in record["epochs"]]


def newest(project: Project, experiment: str) -> Path:
    return project.runs(experiment)[-1]
