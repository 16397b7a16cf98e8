"""`runner explain` names the rank that a CPU quota holds back."""

import re

import pytest

from tests.support.containers import containers_of, docker
from tests.support.launches import ended, starting, until, words_are_printed
from tests.support.projects import Project

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("image")]

CORES = "0.1"  # other tests may leave half a core to any container


def test_the_quota_of_a_container_is_named_with_its_rank(project: Project) -> None:
    with starting(project, "--on", "compose") as start:
        process, run = start(*"quickstart --layout 2x1 --set epochs=3 --set batch_size=64".split())
        until(words_are_printed(project, "init_stop", 2), 60)  # before, less of a core only makes the start longer
        docker("update", "--cpus", CORES, containers_of(f"kit-{run.name.lower()}")[1])
        code, stderr = ended(process)
    assert code == 0, stderr
    done = project.runner("explain", run)
    assert done.code == 0, done.snapshot
    lines = done.stdout.splitlines()
    cause = next(line for line in lines if line.startswith("What slows it"))
    assert re.match(r"What slows it: rank 1 \(node 1, .* CPU quota", cause), done.stdout
    assert "; " not in cause.partition("the others wait")[2], "nothing else is named"
    if not lines[0].startswith("Disturbed"):  # by other tests, which the advice then names first
        assert "CPU limit" in lines[lines.index(cause) + 1]
