"""The state of a pod: why it waits, how it ended and which node it is."""

from pathlib import Path
from typing import Any

import pytest

from runner.records.folder import begin
from runner.records.parse import collect
from runner.records.schema import NodeExit, Outcome
from runner.targets.kubernetes.client import ClusterError
from runner.targets.kubernetes.pod_state import PodState, container_of, node_of
from tests.support.records import Make


def held(reason: str, message: str = "") -> dict[str, Any]:
    return {"containerStatuses": [{"name": "pytorch", "state": {"waiting": {"reason": reason, "message": message}}}]}


SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1. preemption: 0/1"}


@pytest.mark.parametrize(
    ("status", "text", "is_hopeless"),
    [
        ({"conditions": [SCHEDULED]}, "Unschedulable: 0/1.", False),
        (held("ImagePullBackOff", "image x"), "ImagePullBackOff: image x", False),
        (held("InvalidImageName", "no\x1b[31m\n"), "InvalidImageName: no\\x1b[31m", True),
        (
            {"initContainerStatuses": [{"name": "init-pytorch", "state": {"running": {}}}]},
            *("waits for the DNS name of node 0", False),
        ),
        (held("ContainerCreating"), None, False),
        ({"phase": "Running"}, None, False),
    ],
)
def test_a_pod_that_has_not_started_says_why(status: dict[str, Any], text: str | None, *, is_hopeless: bool) -> None:
    reason = PodState({"status": {"phase": "Pending", **status}}).reason
    assert (reason and reason.text, bool(reason and not reason.seconds)) == (text, is_hopeless)


def pod(state: dict[str, Any], status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    statuses = [{"name": "pytorch", "state": state, "imageID": "registry.lab/kit@sha256:12"}]
    return {
        "metadata": {"name": "job-worker-0", "uid": "u", **metadata},
        "spec": {"nodeName": "gpu-7", "containers": [{"name": "pytorch", "image": "registry.lab/kit:gpu"}]},
        "status": {"phase": "Running", "containerStatuses": statuses, **(status or {})},
    }


def terminated(code: int, reason: str = "Error", finished: str = "2026-11-21T18:00:10Z") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": finished}}


def exit_of(raw: dict[str, Any]) -> NodeExit:
    return PodState(raw).exit(0, "lab", stopped=False, is_gone=False)


DUE = {"deletionTimestamp": "2026-11-21T18:00:40Z", "deletionGracePeriodSeconds": 30}
INIT_FAILED = {"name": "init-pytorch", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (pod(terminated(0, "Completed")), (0, None, False, None)),
        (pod(terminated(137, "OOMKilled")), (None, "SIGKILL", True, None)),
        (pod(terminated(143)), (None, "SIGTERM", False, None)),
        (pod(terminated(128, "Start\x1b[31mError\nx")), (128, None, False, "Start\\x1b[31mError x")),
        (pod({"running": {}}, **DUE), (None, None, False, "its pod was deleted while it ran")),
        (
            pod({"waiting": {}}, {"phase": "Failed", "initContainerStatuses": [INIT_FAILED]}),
            (None, None, False, "its init container init-pytorch exited with 1"),
        ),
    ],
)
def test_a_pod_that_ended_says_how(raw: dict[str, Any], expected: object) -> None:
    found = exit_of(raw)
    assert (found.code, found.signal, found.out_of_memory, found.why) == expected
    assert (found.place["machine"], found.place["digest"]) == ("gpu-7", "sha256:12")
    assert PodState(raw).has_ended == ("deletionTimestamp" not in raw["metadata"])


def test_a_pod_is_deleted_if_somebody_asked_for_its_end_before_it_came() -> None:
    assert PodState(pod(terminated(0), **DUE)).deleted  # asked at 18:00:10, when it ended
    assert PodState(pod(terminated(0, finished="2026-11-21T18:00:09Z"), **DUE)).deleted is None
    assert PodState(pod({"running": {}})).deleted is None


def test_the_container_of_a_pod_that_kubeflow_trainer_made_is_known_by_its_own_name() -> None:
    raw = pod({})
    raw["spec"]["containers"] = [{"name": "istio-proxy", "image": "mesh:1"}, {"name": "node", "image": "kit:gpu"}]
    raw["status"]["containerStatuses"] = [{"name": "istio-proxy"}, {"name": "node", "state": terminated(3)}]
    assert (exit_of(raw).code, exit_of(raw).place["image"]) == (3, "kit:gpu")
    assert container_of({}) == "pytorch"


REPLICA, INDEX = "training.kubeflow.org/replica", "batch.kubernetes.io/job-completion-index"


@pytest.mark.parametrize(
    ("metadata", "node"),
    [
        ({"labels": {f"{REPLICA}-type": "master", f"{REPLICA}-index": "0"}}, 0),
        ({"labels": {f"{REPLICA}-type": "worker", f"{REPLICA}-index": "2"}}, 3),
        ({"labels": {INDEX: "4", "job-name": "mnist-0badcafe-node-0", "jobset.sigs.k8s.io/job-index": "0"}}, 4),
        ({"annotations": {INDEX: "5"}}, 5),
        ({}, -1),
    ],
)
def test_a_pod_s_node_is_its_role_and_index(metadata: dict[str, Any], node: int) -> None:
    assert node_of({"metadata": metadata}) == node


def test_what_a_cluster_says_is_one_printable_line() -> None:
    assert str(ClusterError(403, "no\nroom \x1b]0;x\x07")) == "no room \\x1b]0;x\\x07"


def test_a_node_that_was_deleted_or_ended_says_so_in_the_reason(tmp_path: Path, make: Make) -> None:
    folder = begin(tmp_path, make.launch(layout="2x1", target="kubernetes"), "{}", "")
    for because, reason, *exits in (
        (None, "node 1 left no exit code: deleted", NodeExit(0, 1, stopped=True), NodeExit(1, why="deleted")),
        (None, "node 0 exited with 3", NodeExit(0, 3), NodeExit(1, stopped=True, why="ended")),
        ("timed_out", "node 1: no room", NodeExit(0, stopped=True), NodeExit(1, why="no room")),
    ):
        outcome = Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=9, exits=exits, stopped_because=because)
        assert str(collect(folder, folder.launch(), outcome).reason).endswith(reason)
