"""What every test folder can ask for: a project, one with finished runs, and makers of records."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.projects import WEIRD, Project, make_project
from tests.support.records import Make


@pytest.fixture
def weird_path(tmp_path: Path) -> Path:
    path = tmp_path / WEIRD
    path.mkdir()
    return path


@pytest.fixture
def project(weird_path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    real = any(request.node.get_closest_marker(name) for name in ("real_processes", "engine", "cluster"))
    return make_project(weird_path, tmp_path / "cache", forked=not real)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose one experiment has been run at 1x1 and 1x2; not to be changed."""
    base = tmp_path_factory.mktemp("finished")
    project = make_project(base / WEIRD, base / "cache")
    project.define(matrix={"layout": ["1x1", "1x2"]})
    ended = project.runner("run", "tiny")
    assert ended.code == 0, ended.snapshot
    return project


@pytest.fixture(scope="session")
def make() -> Make:
    return Make()
