"""A job of ours while its objects are created: stopped meanwhile, refused at first, and what is said of leftovers."""

from pathlib import Path
from typing import Any

import pytest

from runner.records.folder import begin
from runner.targets.base import Note
from runner.targets.kubernetes.client import Cluster, ClusterError
from runner.targets.kubernetes.lifecycle import JobHandle
from tests.support.records import Make

pytestmark = pytest.mark.usefixtures("held_clock")
TRAINER = [{"kind": kind, "metadata": {"name": "job"}} for kind in ("TrainingRuntime", "TrainJob")]


class Empty(Cluster):
    """A cluster that creates what is asked for; no pods ever start."""

    def __init__(self) -> None:
        self.namespace = "default"
        self.created: list[str] = []
        self.there: set[str] = set()

    def post(self, path: str, body: dict[str, Any], **_: object) -> dict[str, Any]:
        self.created.append(f"{path}/{body['metadata']['name']}")
        self.there.add(self.created[-1])
        return {}

    def delete(self, path: str, **_: object) -> None:
        self.there.discard(path)

    def get(self, _path: str, **_: object) -> dict[str, Any]:
        return {"items": []}


class Caching(Empty):
    """A cluster whose webhook reads a cache, and so learns late of a runtime that was just created."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals

    def post(self, path: str, body: dict[str, Any], **query: object) -> dict[str, Any]:
        if body["kind"] == "TrainJob" and self.refusals:
            self.refusals -= 1
            said = "admission webhook denied the request: spec.runtimeRef: Invalid value: specified trainingRuntime "
            raise ClusterError(403, said + "must be created before the TrainJob is created")
        return super().post(path, body, **query)


def test_a_trainjob_is_created_again_until_its_runtime_is_known_or_fails_in_one_line(
    make: Make, tmp_path: Path
) -> None:
    cluster = Caching(3)
    handle = JobHandle(cluster, TRAINER, begin(tmp_path / "known", make.launch(), "{}", ""), nodes=0)
    assert set(handle.lines()) <= {None}  # it may be created before anybody looks
    assert (cluster.refusals, len(cluster.created), cluster.there) == (0, 2, set())
    cluster = Caching(1_000_000)
    handle = JobHandle(cluster, TRAINER, begin(tmp_path / "never", make.launch(), "{}", ""), nodes=0)
    with pytest.raises(ClusterError, match="must be created before"):
        list(handle.lines())
    handle.stop()
    assert cluster.there == set()


def test_what_could_not_be_deleted_is_named_with_the_kinds_of_the_job(make: Make, tmp_path: Path) -> None:
    class Refusing(Empty):
        def delete(self, _path: str, **_: object) -> None:
            raise ClusterError(403, "no")

    handle = JobHandle(Refusing(), TRAINER, begin(tmp_path, make.launch(), "{}", ""), nodes=0)
    said = [line for line in handle.lines() if line]
    assert said == [Note("no: left behind; kubectl delete -n default trainjob,trainingruntime job")]
