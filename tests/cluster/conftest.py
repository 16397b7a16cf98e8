"""Fixtures of the tests that start pods."""

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
    """Return a function that runs one cell on the cluster and returns the ended command and the record."""
    on = ("--on", "kubernetes", "--with", f"namespace={namespace}", "--device")
    return lambda name, *words, device="cpu": run_once(project, name, *words, *on, device)


@pytest.fixture
def started(project: Project, namespace: str, loaded: Images) -> Iterator[Start]:  # noqa: ARG001
    """Return a function that starts a run and returns its process and its folder."""
    with starting(project, "--on", "kubernetes", "--with", f"namespace={namespace}") as start:
        yield start
