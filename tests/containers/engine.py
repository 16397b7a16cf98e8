"""Helpers of the tests that start containers: runs on target compose, compose files started by hand, images."""

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.containers import CONTROL, docker, left_of, name_of_its_own
from tests.support.launches import run_once
from tests.support.projects import Ended, Project


def run(project: Project, *words: str) -> tuple[Ended, dict[str, Any]]:
    """Run one cell on target compose, and check that it leaves nothing; return the command's end and the record."""
    done, record = run_once(project, *words, "--on", "compose")
    assert left_of(project.runs(record["launch"]["experiment"])[-1]) == []
    return done, record


def up(project: Project, file: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `docker compose -f compose/<file>.yml up`, then `down`, and check that nothing is left."""
    done = compose(project, file, "up", "--no-color", *words, **env)
    ended = compose(project, file, "down")
    assert ended.returncode == 0, ended.stdout
    assert left_of(_place(project)) == []
    return done


def compose(project: Project, file: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `docker compose -f compose/<file>.yml` under another project name, so that other tests can do the same."""
    done = subprocess.run(
        ["docker", "compose", "-f", f"compose/{file}.yml", *words],
        cwd=project.root,
        env={**os.environ, "COMPOSE_PROJECT_NAME": f"kit-{_place(project)}", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    done.stdout = CONTROL.sub("", done.stdout)  # Compose clears lines even without a terminal
    return done


@contextmanager
def built(dockerfile: str, what: str, folder: Path, *words: str) -> Iterator[str]:
    """Build an image under a fresh name, and remove it at the end."""
    (folder / "Dockerfile").write_text(dockerfile)
    name = f"{name_of_its_own(what)}:1"
    docker("build", "--quiet", *words, "--tag", name, ".", cwd=folder)
    try:
        yield name
    finally:
        docker("image", "rm", name)


def _place(project: Project) -> Path:
    return Path(f"test-{hashlib.sha256(str(project.root).encode()).hexdigest()[:8]}")
