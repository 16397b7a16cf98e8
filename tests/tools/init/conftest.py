"""Repositories of other people, copied to a folder with an awkward name."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.projects import ROOT, Project
from tests.support.repository import commit_all

Copy = Callable[..., Project]

REPOSITORIES = Path(__file__).with_name("repositories")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path),
        "CUDA_VISIBLE_DEVICES": "",
        "COLUMNS": "200",
        "PYTHONPATH": str(ROOT),
        "GIT_CEILING_DIRECTORIES": str(tmp_path),
    }


@pytest.fixture
def copy(weird_path: Path, environment: dict[str, str]) -> Copy:
    """Copy a repository, committed to git."""

    def copy(name: str) -> Project:
        root = weird_path / name
        shutil.copytree(REPOSITORIES / name, root, ignore=shutil.ignore_patterns("__pycache__"))
        commit_all(root)
        return Project(root, environment)

    return copy


@pytest.fixture
def folder(weird_path: Path, environment: dict[str, str]) -> Project:
    """An empty folder without git."""
    return Project(weird_path, environment)
