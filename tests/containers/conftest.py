"""The project of the tests that start containers: a copy of this one, without the runs of earlier tests."""

import pytest

from tests.support.containers import forget_runs
from tests.support.projects import Project


@pytest.fixture
def project(copied: Project) -> Project:
    forget_runs(copied)
    return copied
