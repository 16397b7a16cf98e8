"""Fixtures of the tests of target slurm."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.contract.harness import Jobs
from tests.support.projects import Project


@pytest.fixture
def harness(copied: Project) -> Iterator[Jobs]:
    """Yield the target with real processes, in a copy of this project."""
    copied.forked = False
    with closing(Jobs(copied, "--on", "slurm")) as target:
        yield target
