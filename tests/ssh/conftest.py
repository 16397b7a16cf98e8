"""What the tests of target ssh share: runs on the hosts of `.ci/hosts`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import ssh_hosts
from tests.support.launches import run_once, starting
from tests.support.projects import Ended, Project


@pytest.fixture
def on_hosts(copied: Project) -> Project:
    """A copy of this project whose commands start real processes: the hosts run the Python that they are told to."""
    copied.forked = False
    return copied


@pytest.fixture
def refused(on_hosts: Project) -> Callable[..., str]:
    """Ask for a run that is refused before anything is started anywhere; its one line."""

    def ask(*words: str, layout: str = "2x1") -> str:
        command = ["run", "odd-slow", "--on", "ssh", "--layout", layout, "--repeat", "1", "--device", "cpu", *words]
        before = on_hosts.runs("odd-slow")
        done = on_hosts.runner(*command)
        assert (done.code, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr
        (line,) = done.stderr.splitlines()
        assert on_hosts.runs("odd-slow") == before
        return line

    return ask


@pytest.fixture
def words() -> tuple[str, ...]:
    """What names the hosts on the command line."""
    return ssh_hosts.WORDS


@pytest.fixture
def start(on_hosts: Project, words: tuple[str, ...]) -> Iterator[Callable[..., tuple[object, Path]]]:
    """Start a run on the hosts; its process and its folder."""
    with starting(on_hosts, "--on", "ssh", *words) as begin:
        yield begin


@pytest.fixture
def run(on_hosts: Project, words: tuple[str, ...]) -> Callable[..., tuple[Ended, dict[str, object]]]:
    """Run one cell on the hosts to its end."""

    def once(experiment: str, *more: str) -> tuple[Ended, dict[str, object]]:
        return run_once(on_hosts, experiment, *more, "--on", "ssh", *words, "--device", "cpu")

    return once
