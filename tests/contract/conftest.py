"""Define the fixture `harness`."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.contract.harness import Harness
from tests.contract.targets import HARNESSES
from tests.support.containers import forget_runs
from tests.support.projects import Project


@pytest.fixture
def harness(request: pytest.FixtureRequest, copied: Project) -> Iterator[Harness]:
    """Return the target that the test is parametrised with."""
    kind = HARNESSES[request.param]
    copied.forked = kind.forked
    forget_runs(copied)
    places = [request.getfixturevalue(name) for name in kind.fixtures]
    with ExitStack() as stack, closing(kind.made(request.param, copied, stack, *places)) as target:
        yield target
