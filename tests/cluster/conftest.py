"""The project of the tests that start pods, and how they start a run in their namespace."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.containers import Images, forget_runs
from tests.support.launches import run_once, starting
from tests.support.projects import Ended, Project

Run = Callable[..., tuple[Ended, dict[str, Any]]]
Start = Callable[..., tuple[subprocess.Popen[str], Path]]


@pytest.fixture
def project(copied: Project) -> Project:
    forget_runs(copied)
    return copied


@pytest.fixture
def run(project: Project, namespace: str, loaded: Images) -> Run:  # noqa: ARG001
    """Run one cell on the cluster, as a person does; what was said, and the record."""

    def run(experiment: str, *words: str, device: str = "cpu") -> tuple[Ended, dict[str, Any]]:
        on = ("--on", "kubernetes", "--with", f"namespace={namespace}", "--device", device)
        return run_once(project, experiment, *words, *on)

    return run


@pytest.fixture
def started(project: Project, namespace: str, loaded: Images) -> Iterator[Start]:  # noqa: ARG001
    """Start a run and return its process and its folder, once there is one."""
    with starting(project, "--on", "kubernetes", "--with", f"namespace={namespace}") as start:
        yield start
