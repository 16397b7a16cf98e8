"""A copy of this project for tests that start containers, without earlier runs."""

import pytest

from tests.support.containers import forget_runs
from tests.support.projects import Project


@pytest.fixture
def project(copied: Project) -> Project:
    forget_runs(copied)
    return copied
