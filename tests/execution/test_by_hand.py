"""Jobs that somebody else started: each is collected by one command at a time."""

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


class Busy(Cluster):
    """A cluster that knows the job, and may be too busy to say anything of pods."""

    pods: dict[str, Any] | None = None

    def __init__(self, *_: str) -> None:
        self.namespace, self.host = "default", "https://there"

    def get(self, path: str, **query: object) -> dict[str, Any]:
        del query
        if path.endswith("/pods") and self.pods is None:
            raise ClusterError(503, "overloaded")
        return self.pods or {} if path.endswith("/pods") else JOB


@pytest.fixture
def manifest(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(by_hand, "Cluster", Busy)
    path = project.root / "tiny.yaml"
    path.write_text(f"kind: PyTorchJob\nmetadata: {{name: tiny, annotations: {{{RUN}: '{{}}'}}}}\n")
    return path


def collect(project: Project, manifest: Path) -> list[Record]:
    observer = guarded(cast(Observer, None))
    return by_hand.collect_jobs(
        manifest, project.root, project.results, targets.load("kubernetes"), observer, Interrupts()
    )


def test_a_job_that_another_command_collects_is_left_to_it(
    project: Project, make: Make, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Busy, "pods", {"items": []})
    folder = begin(project.results, make.launch(id=ID, target="kubernetes"), "{}", "")
    with folder.held(), pytest.raises(RequestError, match=f"{ID}: another runner collects it"):
        collect(project, manifest)
    assert folder.read().status == "running"


def test_a_job_that_failed_and_whose_pods_are_gone_keeps_its_record(
    project: Project, make: Make, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Busy, "pods", {"items": []})
    folder = make.run(project.results, id=ID, target="kubernetes", stdout={})
    before = (folder.path / "run.json").read_bytes()
    assert [record.status for record in collect(project, manifest)] == ["incomplete"]
    assert (folder.path / "run.json").read_bytes() == before


def test_a_job_of_somebody_else_is_refused_without_a_project_or_a_cluster(project: Project, tmp_path: Path) -> None:
    folder = Project(tmp_path / "elsewhere", project.env)
    folder.root.mkdir()
    (folder.root / "job.yaml").write_text("kind: PyTorchJob\nmetadata: {name: theirs}\n")
    assert "PyTorchJob theirs was not made by `runner render`" in folder.refused("collect", "job.yaml")
    (folder.root / "job.sbatch").write_text("#!/bin/sh\nsrun torchrun train.py\n")
    assert "no batch script of the kit" in folder.refused("collect", "job.sbatch")


def test_a_cluster_that_says_nothing_of_a_job_s_pods_is_a_refusal(project: Project, make: Make, manifest: Path) -> None:
    folder = make.run(project.results, id=ID, target="kubernetes", stdout={})
    assert folder.read().status == "incomplete"
    with pytest.raises(RequestError, match="namespace default of https://there: overloaded"):
        collect(project, manifest)
    assert folder.read().status == "incomplete"
