"""What is read from pods: why one waits, how one ended, and a record made of nothing but their logs."""

import errno
import io
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from runner.records.folder import RunFolder, begin
from runner.records.parse import collect
from runner.records.schema import NodeExit, Outcome, Record
from runner.report.run_summary import summary_of
from runner.targets.base import Line, Note
from runner.targets.kubernetes.client import ClusterError
from runner.targets.kubernetes.pod_state import PodState, container_of, node_of, reason_of_pod
from runner.targets.kubernetes.pods import UNREAD_SECONDS, Pod
from runner.targets.kubernetes.watcher import JobWatcher
from runner.targets.worker_logs import cut_note
from tests.support.held_clock import HeldClock
from tests.support.launches import until
from tests.support.records import Make


def pending(**status: Any) -> dict[str, Any]:
    return {"status": {"phase": "Pending", **status}}


INIT_RUNS = {"name": "init-pytorch", "state": {"running": {}}}
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes ...",
}


def held(reason: str, message: str = "") -> list[dict[str, Any]]:
    return [{"name": "pytorch", "state": {"waiting": {"reason": reason, "message": message}}}]


@pytest.mark.parametrize(
    ("pod", "text", "is_hopeless"),
    [
        (pending(conditions=[UNSCHEDULABLE]), "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.", False),
        (pending(containerStatuses=held("ImagePullBackOff", "image x")), "ImagePullBackOff: image x", False),
        (pending(containerStatuses=held("InvalidImageName", "no\x1b[31m\n")), "InvalidImageName: no\\x1b[31m", True),
        (pending(initContainerStatuses=held("ErrImageNeverPull")), "ErrImageNeverPull", True),
        (pending(initContainerStatuses=[INIT_RUNS]), "waits for the name of node 0", False),
        (pending(containerStatuses=held("ContainerCreating")), None, False),
        ({}, None, False),
        ({"status": {"phase": "Running"}}, None, False),
    ],
)
def test_a_pod_that_has_not_started_says_why(pod: dict[str, Any], text: str | None, *, is_hopeless: bool) -> None:
    reason = reason_of_pod(pod)
    assert (reason and reason.text) == text
    assert bool(reason and reason.is_hopeless) == is_hopeless


def pod(state: dict[str, Any], **metadata: Any) -> Pod:
    cluster = type("Cluster", (), {"namespace": "lab"})()
    made = Pod(cluster, 1, io.BytesIO(), queue.SimpleQueue())
    statuses = [{"name": "pytorch", "state": state, "imageID": "registry.lab/kit@sha256:12"}]
    made.state = PodState(
        {
            "metadata": {"name": "job-worker-0", "uid": "u", **metadata},
            "spec": {"nodeName": "gpu-7", "containers": [{"name": "pytorch", "image": "registry.lab/kit:gpu"}]},
            "status": {"phase": "Running", "containerStatuses": statuses},
        }
    )
    return made


def ended(code: int, reason: str = "Error", finished: str = "2026-11-21T18:00:10Z") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": finished}}


@pytest.mark.parametrize(
    ("state", "code", "signal", "out_of_memory", "why"),
    [
        (ended(0, "Completed"), 0, None, False, None),
        (ended(137, "OOMKilled"), None, "SIGKILL", True, None),
        (ended(143), None, "SIGTERM", False, None),
        (ended(128, "StartError"), 128, None, False, "StartError"),
        (ended(255), 255, None, False, None),
    ],
)
def test_a_pod_that_ended_says_how(
    state: dict[str, Any], code: int | None, signal: str | None, why: str | None, *, out_of_memory: bool
) -> None:
    found = pod(state).describe()
    assert (found.code, found.signal, found.out_of_memory, found.why) == (code, signal, out_of_memory, why)
    assert found.place["machine"] == "gpu-7"
    assert found.place["digest"] == "sha256:12"


def test_a_pod_is_deleted_if_somebody_asked_for_its_end_before_it_came() -> None:
    due = {"deletionTimestamp": "2026-11-21T18:00:40Z", "deletionGracePeriodSeconds": 30}
    assert pod(ended(0), **due).state.deleted  # asked at 18:00:10, when it ended
    assert pod(ended(0, finished="2026-11-21T18:00:09Z"), **due).state.deleted is None
    assert pod({"running": {}}).state.deleted is None
    assert pod({"running": {}}, **due).describe().why == "its pod was deleted while it ran"


def test_the_container_of_a_pod_that_kubeflow_trainer_made_is_known_by_its_own_name() -> None:
    mesh, trains = {"name": "istio-proxy", "image": "mesh:1"}, {"name": "node", "image": "registry.lab/kit:gpu"}
    states = [{"name": "istio-proxy", "state": {"running": {}}}, {"name": "node", "state": ended(3)}]
    spec = {"nodeName": "gpu-7", "containers": [mesh, trains]}
    found = PodState({"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": {"containerStatuses": states}})
    assert container_of(found.raw) == "node"
    exited = found.exit(0, "lab", stopped=False, is_gone=False)
    assert (exited.code, exited.place["image"]) == (3, "registry.lab/kit:gpu")
    assert container_of({}) == container_of({"spec": {"containers": [mesh]}}) == "pytorch"


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


def collected(folder: RunFolder, *exits: NodeExit, because: str | None = None) -> Record:
    """The record of a run that has ended so."""
    when = "2026-11-21T00:01:00+00:00"
    outcome = Outcome(ended=when, wall_seconds=9, exits=[*exits], stopped_because=because)
    return collect(folder, folder.launch(), outcome)


def test_a_record_can_be_made_of_the_pods_logs_alone(tmp_path: Path, make: Make) -> None:
    launch = make.launch(layout="1+2", target="kubernetes", image={"name": "registry.lab/kit:gpu"})
    folder = begin(tmp_path, launch, "{}", "")
    start = {"sources_sha256": "f" * 64}
    for node, ranks in enumerate([[0], [1, 2]]):
        with folder.open_agent(node) as log:
            log.write(b"what torchrun says\n" + b"".join(make.lines(rank, 4.0 + rank, **start) for rank in ranks))
    record = collected(folder, *(NodeExit(node, 0, place={"digest": "sha256:12"}) for node in range(2)))
    assert record.status == "completed"
    assert record.metrics["train_seconds"] == 6.0
    assert [(rank.rank, rank.node) for rank in record.ranks] == [(0, 0), (1, 1), (2, 1)]
    same = summary_of(record).same
    assert (same["image"], same["code"]) == ("sha256:12", "f" * 64)


def test_the_last_lines_are_those_before_torchrun_s_own_report(tmp_path: Path, make: Make) -> None:
    folder = begin(tmp_path, make.launch(layout="2x1", target="kubernetes"), "{}", "")
    report = "E1121 18:00:00.1 140 torch/.../api.py:826] failed (exitcode: 3) local_rank: 0 (pid: 20)\nTraceback:\n"
    report += "  time      : 2026-11-21_18:00:00\n  rank      : 1 (local_rank: 0)\n  exitcode  : 3 (pid: 20)\n"
    for node, said in enumerate(["", f"\nValueError: the batch is empty\n{report}"]):
        with folder.open_agent(node) as log:
            log.write(make.lines(node, 4.0)[:700] + said.encode())
    record = collected(folder, NodeExit(0, 0, stopped=True), NodeExit(1, 1))
    assert (record.status, record.reason) == ("failed", "rank 1 (node 1) exited with 3")
    assert record.failure
    assert record.failure.last_lines[-1] == "ValueError: the batch is empty"


def test_a_node_that_was_deleted_or_ended_says_so_in_the_reason(tmp_path: Path, make: Make) -> None:
    folder = begin(tmp_path, make.launch(layout="2x1", target="kubernetes"), "{}", "")
    why = "its pod was deleted while it ran"
    deleted = collected(folder, NodeExit(0, 1, stopped=True), NodeExit(1, why=why))
    assert deleted.reason == f"node 1 left no exit code: {why}"
    after_another = collected(folder, NodeExit(0, 3), NodeExit(1, stopped=True, why="its pod is gone"))
    assert after_another.reason == "node 0 exited with 3"
    exits = NodeExit(0, stopped=True), NodeExit(1, why="Unschedulable: no room")
    late = collected(folder, *exits, because="timed_out")
    assert late.reason == "not done after timeout_seconds: 60; node 1: Unschedulable: no room"


def test_a_pod_whose_init_container_failed_says_so() -> None:
    failed = pod({"waiting": {"reason": "PodInitializing"}})
    init = {"name": "init-pytorch", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    failed.state.raw["status"] |= {"phase": "Failed", "initContainerStatuses": [init]}
    assert failed.has_ended
    assert failed.describe().why == "its init container init-pytorch exited with 1"


class LogServer:
    """A cluster that has one pod's log, or whose machine with the pod does not answer."""

    namespace = "lab"

    def __init__(self, log: bytes | ClusterError) -> None:
        self._log = log

    def path(self, kind: str, name: str) -> str:
        return f"{kind}/{name}"

    def stream(self, path: str, **query: object) -> Iterator[bytes]:
        assert (path, query["timestamps"]) == ("pods/job-worker-0/log", "true")
        if isinstance(self._log, ClusterError):
            raise self._log
        for start in range(0, len(self._log), 10_000):
            yield self._log[start : start + 10_000]


def followed(log: bytes | ClusterError, output: BinaryIO, **status: str) -> tuple[Pod, list[Line | Note]]:
    """A pod that has ended, when all of its log is read, and what was said of it."""
    said: queue.SimpleQueue[Line | Note] = queue.SimpleQueue()
    read = Pod(LogServer(log), 1, output, said)  # type: ignore[arg-type]
    state = pod(ended(0, "Completed")).state.raw
    read.seen({**state, "status": status} if status else state)
    until(lambda: read.is_read)
    return read, [said.get_nowait() for _ in range(said.qsize())]


def test_the_log_of_a_pod_that_has_ended_on_a_machine_that_is_lost_is_not_asked_for_without_end(
    tmp_path: Path, held_clock: HeldClock
) -> None:
    began = held_clock.monotonic()
    lost = ClusterError(502, "dial tcp 10.0.0.7:10250: no route to host")
    _, (note,) = followed(lost, (tmp_path / "log").open("wb"), phase="Failed", reason="NodeLost")
    assert held_clock.monotonic() - began == pytest.approx(UNREAD_SECONDS, abs=1)
    assert note == Note(f"node 1: what its pod job-worker-0 printed last is lost: {lost}")


def test_a_pod_s_log_is_kept_in_full_and_looked_at_in_bounded_lines(tmp_path: Path) -> None:
    stamp = b"2026-11-21T18:00:00.%dZ "
    log = stamp % 1 + b"one\n" + stamp % 2 + b"x" * 300_000 + b"\n" + stamp % 3 + b"end"
    read, said = followed(log, (tmp_path / "log").open("wb"))
    assert (tmp_path / "log").read_bytes() == b"one\n" + b"x" * 300_000 + b"\nend\n"
    assert said == [
        *(Line(1, 0, text) for text in (b"one", b"x" * 65_536, b"end")),
        Note(cut_note("node 1", 1)),
    ]
    assert read.failure is None


def test_a_disk_that_is_full_is_kept_as_a_failure_of_the_pod() -> None:
    output = Path("/dev/full").open("wb")  # noqa: SIM115 - the thread closes it
    read, said = followed(b"2026-11-21T18:00:00.1Z one\n", output)
    assert said == []
    assert read.failure
    assert read.failure.errno == errno.ENOSPC


def test_what_a_kubelet_or_a_registry_says_is_one_printable_line_in_a_record() -> None:
    assert pod(ended(128, "Start\x1b[31mError\nx")).describe().why == "Start\\x1b[31mError x"
    state = pod({"running": {}}, name="job\x9b2J").state.raw
    assert "\x9b" not in str(PodState(state).exit(0, "lab", stopped=False, is_gone=False).place)
    assert str(ClusterError(403, "no\nroom \x1b]0;x\x07")) == "no room \\x1b]0;x\\x07"


def test_a_node_that_its_controller_ended_says_so_as_often_as_it_is_asked(make: Make, tmp_path: Path) -> None:
    cluster = type("Cluster", (), {"namespace": "lab"})()
    watcher = JobWatcher(cluster, "PyTorchJob", "job", begin(tmp_path, make.launch(), "{}", ""), nodes=0)
    watcher.nodes = [
        pod(ended(0, "Completed")),
        pod(ended(1, finished="2026-11-21T18:00:12Z"), deletionTimestamp="2026-11-21T18:00:11Z"),
    ]
    watcher.nodes[0].number = 0
    asked = [watcher.exits for _ in range(2)]
    assert asked[0] == asked[1]
    assert [node.stopped for node in asked[0]] == [False, True]
    assert asked[0][1].why == "it was ended because node 0 had ended"
