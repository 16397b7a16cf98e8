"""Fixtures for runs on the hosts of `.ci/hosts`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import ssh_hosts
from tests.support.launches import run_once, starting
from tests.support.projects import Ended, Project


@pytest.fixture
def on_hosts(copied: Project) -> Project:
    """Return a copy of this project whose commands are real processes, because the hosts use the same Python."""
    copied.forked = False
    return copied


@pytest.fixture
def refused(on_hosts: Project) -> Callable[..., str]:
    """Return a function that runs a command which must be refused before any start; it returns the error line."""

    def ask(*words: str, layout: str = "2x1") -> str:
        command = ["run", "odd-slow", "--on", "ssh", "--layout", layout, "--repeat", "1", "--device", "cpu", *words]
        before = on_hosts.runs("odd-slow")
        line = on_hosts.refused(*command)
        assert on_hosts.runs("odd-slow") == before
        return line

    return ask


@pytest.fixture
def words() -> tuple[str, ...]:
    """Return the options that name the hosts."""
    return ssh_hosts.WORDS


@pytest.fixture
def start(on_hosts: Project, words: tuple[str, ...]) -> Iterator[Callable[..., tuple[object, Path]]]:
    """Yield a function that starts a run on the hosts and returns its process and folder."""
    with starting(on_hosts, "--on", "ssh", *words) as begin:
        yield begin


@pytest.fixture
def run(on_hosts: Project, words: tuple[str, ...]) -> Callable[..., tuple[Ended, dict[str, object]]]:
    """Return a function that runs one cell on the hosts to its end."""

    def once(experiment: str, *more: str) -> tuple[Ended, dict[str, object]]:
        return run_once(on_hosts, experiment, *more, "--on", "ssh", *words, "--device", "cpu")

    return once
