"""One fixture, `harness`: the target that a test is parametrised with."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.contract.harness import Containers, Harness, Hosts, IndexedPods, Jobs, Pods
from tests.support.cluster import own_namespace
from tests.support.containers import forget_runs
from tests.support.projects import Project


@pytest.fixture
def harness(request: pytest.FixtureRequest, copied: Project, processes: int) -> Iterator[Harness]:
    """The target that the test is parametrised with."""
    # There real processes are started, and their ends looked at
    copied.forked = request.param not in ("local", "ssh", "slurm")
    forget_runs(copied)
    with ExitStack() as stack:
        target: Harness
        if request.param == "local":
            target = Harness(copied, "--on", "local")
        elif request.param == "ssh":
            target = Hosts(copied)
        elif request.param == "compose":
            request.getfixturevalue("image")
            target = Containers(copied, "--on", "compose")
        elif request.param == "slurm":
            target = Jobs(copied, "--on", "slurm")
        else:
            request.getfixturevalue("loaded")
            namespace = stack.enter_context(own_namespace(request.getfixturevalue("shared"), processes))
            target = (Pods if request.param == "pytorchjob" else IndexedPods)(copied, namespace, request.param)
        with closing(target):
            yield target
