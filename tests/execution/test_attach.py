"""A job is collected by one command at a time, and a cluster that does not answer is a refusal."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from runner import targets
from runner.core.errors import RequestError
from runner.execution import attach
from runner.execution.observer import Observer, guarded
from runner.execution.signals import Interrupts
from runner.records.folder import begin
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


class WithoutPods(Cluster):
    """A cluster that knows the job, and is too busy to say anything of pods."""

    def __init__(self, *_: str) -> None:
        self.namespace, self.host = "default", "https://there"

    def get(self, path: str, **query: object) -> dict[str, Any]:
        del query
        if path.endswith("/pods"):
            raise ClusterError(503, "overloaded")
        return JOB


@pytest.fixture
def manifest(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(attach, "Cluster", WithoutPods)
    path = project.root / "tiny.yaml"
    path.write_text(f"kind: PyTorchJob\nmetadata: {{name: tiny, annotations: {{{RUN}: '{{}}'}}}}\n")
    return path


def collect(project: Project, manifest: Path) -> None:
    observer = guarded(cast(Observer, None))
    attach.attach(manifest, project.root, project.results, targets.load("kubernetes"), observer, Interrupts())


def test_a_job_that_another_command_collects_is_left_to_it(project: Project, make: Make, manifest: Path) -> None:
    folder = begin(project.results, make.launch(id=ID, target="kubernetes"), "{}", "")
    with folder.held(), pytest.raises(RequestError, match=f"{ID}: another runner collects it: wait for its end"):
        collect(project, manifest)
    assert folder.read().status == "running"


def test_a_job_of_somebody_else_is_refused_without_a_project_or_a_cluster(project: Project, tmp_path: Path) -> None:
    folder = Project(tmp_path / "elsewhere", project.env)
    folder.root.mkdir()
    (folder.root / "job.yaml").write_text("kind: PyTorchJob\nmetadata: {name: theirs}\n")
    assert "PyTorchJob theirs is none of `runner render`" in folder.refused("collect", "job.yaml")
    (folder.root / "job.sbatch").write_text("#!/bin/sh\nsrun torchrun train.py\n")
    assert "no batch script of the kit" in folder.refused("collect", "job.sbatch")


def test_a_cluster_that_says_nothing_of_a_job_s_pods_is_a_refusal(project: Project, make: Make, manifest: Path) -> None:
    folder = make.run(project.results, id=ID, target="kubernetes", stdout={})
    assert folder.read().status == "incomplete"
    with pytest.raises(RequestError, match="namespace default of https://there: overloaded"):
        collect(project, manifest)
    assert folder.read().status == "incomplete"
