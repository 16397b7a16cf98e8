"""`runner collect` of jobs that somebody else started."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from runner import targets
from runner.core.errors import RequestError
from runner.execution import by_hand
from runner.execution.observer import Observer, guarded
from runner.execution.signals import Interrupts
from runner.records.folder import begin
from runner.records.schema import Record
from runner.targets.kubernetes.client import Cluster, ClusterError
from runner.targets.kubernetes.job import RUN
from tests.support.projects import Project
from tests.support.records import Make

ID = "20261121T000000Z-kubernetes-0badcafe"
CELL = {"experiment": "tiny", "program": "toys.ok", "layout": "1x1", "axes": {}, "args": {}, "device": "cpu"}
JOB = {
    "metadata": {
        "name": "tiny",
        "uid": "0badcafe-0000",
        "creationTimestamp": "2026-11-21T00:00:00Z",
        "annotations": {RUN: json.dumps(CELL)},
    }
}


class Fake(Cluster):
    """A cluster with the job and without pods, which may be too busy to list them."""

    is_busy = False

    def __init__(self, *_: str) -> None:
        self.namespace, self.host = "default", "https://there"

    def get(self, path: str, **_: object) -> dict[str, Any]:
        if not path.endswith("/pods"):
            return JOB
        if self.is_busy:
            raise ClusterError(503, "overloaded")
        return {"items": []}


@pytest.fixture
def manifest(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(by_hand, "Cluster", Fake)
    path = project.root / "tiny.yaml"
    path.write_text(f"kind: PyTorchJob\nmetadata: {{name: tiny, annotations: {{{RUN}: '{{}}'}}}}\n")
    return path


def collect(project: Project, manifest: Path) -> list[Record]:
    observer = guarded(cast(Observer, None))
    return by_hand.collect_jobs(
        manifest, project.root, project.results, targets.load("kubernetes"), observer, Interrupts()
    )


def test_a_job_that_another_command_collects_is_left_to_it(project: Project, make: Make, manifest: Path) -> None:
    folder = begin(project.results, make.launch(id=ID, target="kubernetes"), "{}", "")
    with folder.held(), pytest.raises(RequestError, match=f"{ID}: another runner"):
        collect(project, manifest)
    assert folder.read().status == "running"


def test_a_failed_job_keeps_its_record_if_its_pods_are_gone_or_cannot_be_listed(
    project: Project, make: Make, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make.run(project.results, id=ID, target="kubernetes", stdout={})
    before = (folder.path / "run.json").read_bytes()
    assert [record.status for record in collect(project, manifest)] == ["incomplete"]
    monkeypatch.setattr(Fake, "is_busy", True)
    with pytest.raises(RequestError, match="namespace default of https://there: overloaded"):
        collect(project, manifest)
    assert (folder.path / "run.json").read_bytes() == before


def test_a_job_of_somebody_else_is_refused_without_a_project_or_a_cluster(project: Project, tmp_path: Path) -> None:
    folder = Project(tmp_path / "elsewhere", project.env)
    folder.root.mkdir()
    (folder.root / "job.yaml").write_text("kind: PyTorchJob\nmetadata: {name: theirs}\n")
    assert "PyTorchJob theirs" in folder.refused("collect", "job.yaml")
    (folder.root / "job.sbatch").write_text("#!/bin/sh\nsrun torchrun train.py\n")
    assert "job.sbatch: not a batch script" in folder.refused("collect", "job.sbatch")
