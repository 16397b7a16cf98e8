"""What the tests that start containers share: compose files as a person calls them, and a record in short."""

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.containers import CONTROL, containers_of, docker, left_of, name_of_its_own, networks_of
from tests.support.launches import run_once
from tests.support.projects import Ended, Project


def run(project: Project, *words: str) -> tuple[Ended, dict[str, Any]]:
    """Run one cell on target compose, which leaves nothing; the command's end, and the new record."""
    done, record = run_once(project, *words, "--on", "compose")
    assert left_of(project.runs(record["launch"]["experiment"])[-1]) == []
    return done, record


def up(project: Project, file: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Call `docker compose -f compose/<file>.yml up`, then `down`, which leaves nothing; stdout is all of it."""
    done = compose(project, file, "up", "--no-color", *words, **env)
    ended = compose(project, file, "down")
    assert ended.returncode == 0, ended.stdout
    name = _name(project)
    assert containers_of(name) + networks_of(name) == []
    return done


def compose(project: Project, file: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Call `docker compose -f compose/<file>.yml` in the project's folder, as a person does.

    The files have names of their own, under which only one of them can be up on an engine: other tests may be at it.
    """
    done = subprocess.run(
        ["docker", "compose", "-f", f"compose/{file}.yml", *words],
        cwd=project.root,
        env={**os.environ, "COMPOSE_PROJECT_NAME": _name(project), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    done.stdout = CONTROL.sub("", done.stdout)  # Compose clears the terminal's line even where there is none
    return done


@contextmanager
def built(dockerfile: str, what: str, folder: Path, *words: str) -> Iterator[str]:
    """Build an image of a name of its own, and remove it in the end."""
    (folder / "Dockerfile").write_text(dockerfile)
    name = f"{name_of_its_own(what)}:1"
    docker("build", "--quiet", *words, "--tag", name, ".", cwd=folder)
    try:
        yield name
    finally:
        docker("image", "rm", name)


def _name(project: Project) -> str:
    return f"kit-test-{hashlib.sha256(str(project.root).encode()).hexdigest()[:8]}"
