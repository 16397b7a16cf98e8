"""A removed container ends its run; tests/contract has the other ends of runs."""

import pytest

from tests.support.containers import docker, left_of, running_of
from tests.support.launches import starting
from tests.support.projects import Project

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("image")]


def test_whoever_removes_a_container_ends_the_run(project: Project) -> None:
    with starting(project, "--on", "compose") as start:
        process, folder = start(*"odd-slow --layout 2x1 --set seconds=100".split())
        docker("rm", "--force", running_of(f"kit-{folder.name.lower()}", 2)[1])
        process.communicate()
    assert process.returncode == 1
    record = project.record(folder)
    assert record["status"] in ("failed", "killed")
    assert record["reason"].startswith("node 1 ")
    assert left_of(folder) == []
