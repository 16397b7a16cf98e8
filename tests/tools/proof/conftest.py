"""Committed projects with runs, and helpers that run commands on them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.projects import Ended, Project, make_project
from tests.support.repository import commit_all


@pytest.fixture(scope="session")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Create a committed project with three runs of a cell, and their archive kit.tar; tests must not change it."""
    base = tmp_path_factory.mktemp("bundled")
    project = make_project(base / 'it\'s a "pàth"', base / "cache")
    project.define(matrix={"layout": ["1x2"]}, repeat=3)
    (project.root / "requirements.lock").write_text("torch==2.3.1\n")
    (project.root / "LICENSE").write_text("Do what you like.\n")
    (project.root / "link").symlink_to("/etc/passwd")
    committed(project)
    ran(project, "run", "tiny")
    ended = ran(project, "bundle", "results", "-o", "kit.tar")
    assert "link: it is a link" in ended.stderr
    return project


def committed(project: Project, top: Path | None = None) -> None:
    """Commit a project, or a folder around it, without results and archives."""
    (top or project.root).joinpath(".gitignore").write_text("results/\nreproduced/\n__pycache__/\n*.tar\n")
    commit_all(top or project.root)


def ran(project: Project, *words: str | Path, code: int = 0, env: dict[str, str] | None = None) -> Ended:
    ended = project.runner(*words, env=env)
    assert ended.code == code, ended.snapshot
    return ended


def refused(project: Project, says: str, *words: str | Path, code: int = 1) -> None:
    (line,) = ran(project, *words, code=code).stderr.splitlines()
    assert re.search(says, line), line


def verdict_of(project: Project, *words: str | Path, code: int = 0) -> dict[str, Any]:
    """Return the JSON verdict of a command about one run."""
    verdict: dict[str, Any]
    (verdict,) = json.loads(ran(project, *words, "--json", code=code).stdout)["runs"]
    return verdict


def one_run(project: Project) -> Path:
    ran(project, "run", "tiny", "--layout", "1x1")
    return project.runs()[-1]


def claim_diff(project: Project, run: Path, sha256: str) -> None:
    """Write another hash of the diff into a record, and seal it again."""
    for path in (run / "run.json", run / "request" / "launch.json"):
        path.write_text(re.sub('("diff_sha256": ?")[0-9a-f]+', rf"\g<1>{sha256}", path.read_text()))
    (run / "SHA256SUMS").unlink()
    ran(project, "collect", run)
