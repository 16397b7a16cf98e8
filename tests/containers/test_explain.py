"""A container that gets less than the other one: the rank that it holds back is named, with the quota."""

import re

import pytest

from tests.support.containers import containers_of, docker
from tests.support.launches import ended, starting, until, words_are_printed
from tests.support.projects import Project

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("image")]

CELL = ("--layout", "2x1", "--set", "epochs=3", "--set", "batch_size=64")
CORES = "0.1"  # half a core could be all that other tests leave to any container


def test_the_quota_of_a_container_is_named_with_its_rank(project: Project) -> None:
    with starting(project, "--on", "compose") as start:
        process, run = start("quickstart", *CELL)
        until(words_are_printed(project, "init_stop", 2), 60)  # before, less of a core only makes the start longer
        names = containers_of(f"kit-{run.name.lower()}")
        docker("update", "--cpus", CORES, names[1])
        code, stderr = ended(process)
    assert code == 0, stderr
    done = project.runner("explain", run)
    assert done.code == 0, done.snapshot
    lines = done.stdout.splitlines()
    cause = next(line for line in lines if line.startswith("What slows it"))
    said = r"What slows it: rank 1 \(node 1, \S+\) by a CPU quota: held back \d+% of the training; the others wait"
    assert re.match(said, cause), done.stdout
    assert "; " not in cause.partition("the others wait")[2], "nothing else is named"
    if not lines[0].startswith("Disturbed"):  # by other tests; to end those is then the first advice
        assert "a higher CPU limit of that node" in lines[lines.index(cause) + 1]
