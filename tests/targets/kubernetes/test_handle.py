"""Creation, watching and deletion of a job's objects."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.records.folder import RunFolder, begin
from runner.targets.kubernetes.client import Cluster, ClusterError
from runner.targets.kubernetes.handle import JobHandle, JobWatcher
from runner.targets.kubernetes.job import COMES_TOO_SOON
from runner.targets.kubernetes.pods import UNREAD_SECONDS
from tests.support.held_clock import HeldClock
from tests.support.records import Make
from tests.targets.kubernetes.test_pods import INDEX, pod, terminated

pytestmark = pytest.mark.usefixtures("held_clock")
TRAINER = [{"apiVersion": "v1", "kind": kind, "metadata": {"name": "job"}} for kind in ("TrainingRuntime", "TrainJob")]


@pytest.fixture
def folder(tmp_path: Path, make: Make) -> RunFolder:
    return begin(tmp_path, make.launch(target="kubernetes"), "{}", "")


class Fake(Cluster):
    """A cluster that creates every object, and whose pods have ended without a log.

    It refuses a TrainJob `refusals` times, as Trainer's webhook does until its cache has the runtime.
    """

    def __init__(self, *pods: dict[str, Any], lost: ClusterError | None = None, refusals: int = 0) -> None:
        self.namespace, self.pods, self.lost, self.refusals = "default", list(pods), lost, refusals
        self.created: list[dict[str, Any]] = []
        self.there: set[str] = set()

    def post(self, path: str, body: dict[str, Any], **_: object) -> dict[str, Any]:
        if body["kind"] == "TrainJob" and self.refusals:
            self.refusals -= 1
            raise ClusterError(403, f"denied: {COMES_TOO_SOON}")
        self.created.append(body)
        self.there.add(f"{path}/{body['metadata']['name']}")
        return {"metadata": {"uid": "7"}}

    def delete(self, path: str, **_: object) -> None:
        self.there.discard(path)

    def get(self, path: str, **_: object) -> dict[str, Any]:
        if path.endswith("/pods"):
            return {"items": self.pods, "metadata": {"resourceVersion": "1"}}
        raise ClusterError(404, "gone")

    def watch(self, *_: object, **__: object) -> Iterator[dict[str, Any]]:
        raise ClusterError(0, "not kept open")

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        raise self.lost or ClusterError(404, "no log")


def test_a_trainjob_is_created_again_until_its_runtime_is_known_and_owns_what_it_brings(folder: RunFolder) -> None:
    cluster = Fake(refusals=3)
    brought = {"kind": "ConfigMap", "metadata": {"name": "job-observer"}}
    handle = JobHandle(cluster, TRAINER, [brought], folder, nodes=0)
    assert set(handle.lines()) <= {None}  # it may be created before anybody looks
    assert [made["kind"] for made in cluster.created] == ["TrainingRuntime", "TrainJob", "ConfigMap"]
    owner = {"apiVersion": "v1", "kind": "TrainJob", "name": "job", "uid": "7"}
    assert cluster.created[-1]["metadata"]["ownerReferences"] == [owner]
    assert cluster.there == {cluster.path("ConfigMap", "job-observer")}  # which the cluster deletes with its owner


def test_a_trainjob_whose_runtime_stays_unknown_fails_in_one_line(folder: RunFolder) -> None:
    cluster = Fake(refusals=1_000_000)
    handle = JobHandle(cluster, TRAINER, [], folder, nodes=0)
    with pytest.raises(ClusterError, match=COMES_TOO_SOON):
        list(handle.lines())
    handle.stop()
    assert cluster.there == set()


def test_what_could_not_be_deleted_is_named_with_the_kinds_of_the_job(folder: RunFolder) -> None:
    class Refusing(Fake):
        def delete(self, *_: object, **__: object) -> None:
            raise ClusterError(403, "no")

    (said,) = filter(None, JobHandle(Refusing(), TRAINER, [], folder, nodes=0).lines())
    assert said.text.endswith("kubectl delete -n default trainjob,trainingruntime job")


def test_the_log_of_a_pod_that_has_ended_on_a_machine_that_is_lost_is_not_asked_for_without_end(
    folder: RunFolder, held_clock: HeldClock
) -> None:
    began = held_clock.monotonic()
    lost = ClusterError(502, "dial tcp 10.0.0.7:10250: no route to host")
    raw = pod({}, {"phase": "Failed", "reason": "NodeLost"}, annotations={INDEX: "0"})
    (said,) = filter(None, JobWatcher(Fake(raw, lost=lost), "Job", "job", folder, 1).lines())
    assert held_clock.monotonic() - began >= UNREAD_SECONDS
    assert re.fullmatch(f"node 0: .* pod job-worker-0 .*: {lost}", said.text)


def test_a_node_that_its_controller_ended_says_so_as_often_as_it_is_asked(folder: RunFolder) -> None:
    deleted = terminated(1, finished="2026-11-21T18:00:12Z")
    of_node_1 = {"annotations": {INDEX: "1"}, "deletionTimestamp": "2026-11-21T18:00:11Z"}
    ended = [pod(terminated(0, "Completed"), annotations={INDEX: "0"}), pod(deleted, **of_node_1)]
    watcher = JobWatcher(Fake(*ended), "Job", "job", folder, 2)
    assert list(filter(None, watcher.lines())) == []
    first, second = watcher.exits
    assert watcher.exits == [first, second]
    assert (first.stopped, second.stopped) == (False, True)
    assert "node 0 had ended" in str(second.why)
