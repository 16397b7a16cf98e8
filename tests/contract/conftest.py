"""One fixture, `harness`: the target that a test is parametrised with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.harness import Containers, Harness, IndexedPods, Pods
from tests.support.cluster import own_namespace
from tests.support.containers import forget_runs
from tests.support.launches import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.projects import Project


@pytest.fixture
def harness(request: pytest.FixtureRequest, copied: Project, processes: int) -> Iterator[Harness]:
    """The target that the test is parametrised with; when the test ends, nothing is left of its runs."""
    forget_runs(copied)
    if request.param in ("local", "compose"):
        if request.param == "compose":
            request.getfixturevalue("image")
        kind = Containers if request.param == "compose" else Harness
        yield from _checked(kind(copied, "--on", request.param))
        return
    request.getfixturevalue("loaded")
    with own_namespace(request.getfixturevalue("shared"), processes) as namespace:
        kind_of_pods = Pods if request.param == "pytorchjob" else IndexedPods
        yield from _checked(kind_of_pods(copied, namespace, request.param))


def _checked(harness: Harness) -> Iterator[Harness]:
    try:
        yield harness
    finally:
        harness.close()
    for path in harness.project.results.glob("*/*/run.json"):
        until(lambda run=path.parent: harness.left(run) == [], 90, every=0.5)  # type: ignore[misc]
