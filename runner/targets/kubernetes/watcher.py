"""A job that is only watched: its pods are followed and their logs are read; nothing is created or deleted."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from runner.core import clock
from runner.records.folder import RunFolder
from runner.records.schema import NodeExit
from runner.targets.base import Handle, Line, Note
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError
from runner.targets.kubernetes.pod_state import Reason, node_of, reason_of_job, reason_of_pod
from runner.targets.kubernetes.pods import Pod

POLL_SECONDS = 0.2
PULL_SECONDS = 60.0
"""How long an image may fail to be pulled."""
JOB_SECONDS = 3.0
"""How often the job itself is looked at while a pod is missing."""
AGAIN_SECONDS = 0.3
WATCH_SECONDS = 300
_SELECTORS = {
    "PyTorchJob": "training.kubeflow.org/job-name",
    "TrainJob": "jobset.sigs.k8s.io/jobset-name",  # the JobSet has the name of its TrainJob
    "Job": "job-name",
}


class JobWatcher(Handle):
    """The handle of a job that somebody applied by hand; the handle of a job of ours is built on it.

    Its kind is `PyTorchJob`, `TrainJob` or `Job`, and its logs go into the raw files of the folder.
    """

    nodes: list[Pod]

    def __init__(self, cluster: Cluster, kind: str, name: str, folder: RunFolder, nodes: int) -> None:
        self._cluster = cluster
        self._kind, self._name = kind, name
        self._queue: queue.SimpleQueue[Line | Note] = queue.SimpleQueue()
        self.nodes = [Pod(cluster, node, folder.open_agent(node), self._queue) for node in range(nodes)]
        self._looked = 0.0
        self._listed = threading.Event()
        """Set once the pods that existed at first are known."""
        self._is_over = False

    def _exits(self) -> list[NodeExit]:
        return [self._exit(pod) for pod in self.nodes]

    def lines(self) -> Iterator[Line | Note | None]:
        """Follow the pods until all have ended."""
        yield from self.follow()
        self.stop()

    def stop(self) -> None:
        """Look no further; the job is left alone."""
        self._is_over = True

    def follow(self) -> Iterator[Line | Note | None]:
        """Yield what the pods print until all of it is read; the pods are watched on until `stop`."""
        threading.Thread(target=self._watch, daemon=True).start()
        while not all(pod.is_read for pod in self.nodes):
            self._look()
            yield from self.said()
            yield None  # also while lines come without end, so that a deadline is seen
            clock.sleep(POLL_SECONDS)
        yield from self.said()

    def said(self) -> Iterator[Line | Note]:
        """Yield what has come since the last time; raise OSError if a log could not be kept."""
        with suppress(queue.Empty):
            for _ in range(self._queue.qsize()):
                yield self._queue.get_nowait()
        for pod in self.nodes:
            if pod.failure:
                raise pod.failure

    def _take(self, what: str, state: dict[str, Any]) -> None:
        """Take a change of a pod; a second pod for a node means that somebody deleted the first."""
        node = node_of(state)
        if not 0 <= node < len(self.nodes) or self.nodes[node].is_gone:
            return
        pod = self.nodes[node]
        if pod.state and pod.state.uid != state["metadata"]["uid"]:
            pod.is_gone = True
            return
        pod.seen(state)
        if what == "DELETED":
            pod.is_gone = True

    def _look(self) -> None:
        """Find out why nodes have not started; raise OSError if one never will."""
        for pod in self.nodes:
            if pod.has_ended or pod.state.is_running:
                pod.reason = None
        missing = [pod for pod in self.nodes if not pod.has_ended and not pod.state.is_running]
        absent = [pod for pod in missing if not pod.state]
        of_job = self._look_at_job(absent) if absent and self._listed.is_set() else None
        for pod in missing:
            before, reason = pod.reason, reason_of_pod(pod.state.raw) if pod.state else of_job
            if reason is None:
                continue
            pod.reason, now = reason, clock.monotonic()
            if before is None or before.key != reason.key:
                pod.reason_since = now
                self._queue.put(Note(f"node {pod.number} {reason.text}"))
            elif reason.is_hopeless or (reason.key == "pulling" and now - pod.reason_since > PULL_SECONDS):
                raise OSError(f"node {pod.number} cannot start: {reason.text}")

    def _look_at_job(self, absent: list[Pod]) -> Reason | None:
        """Ask the job why it has no pods; one that has ended or is gone will have none."""
        if clock.monotonic() - self._looked < JOB_SECONDS:
            return absent[0].reason
        self._looked = clock.monotonic()
        if self.has_ended():
            for pod in absent:
                pod.give_up()
        return reason_of_job(self._cluster, self._kind, self._name)

    def has_ended(self) -> bool:
        """Return whether the job's controller has seen its end, or the job is gone."""
        try:
            job = self._cluster.get(self._cluster.path(self._kind, self._name))
        except ClusterError as error:
            return error.is_absence
        conditions = (job.get("status") or {}).get("conditions") or []
        true = [condition["type"] for condition in conditions if condition["status"] == "True"]
        return not {"Succeeded", "Complete", "Failed"}.isdisjoint(true)

    def _exit(self, pod: Pod) -> NodeExit:
        """Tell a pod that the job's controller ended, because another had ended first, from one that was deleted."""
        ends = [(other.state.deleted or other.state.finished, other.noticed, other.number) for other in self.nodes]
        first = min(((when, noticed, node) for when, noticed, node in ends if when), default=None)
        by_another = bool(pod.state.deleted and first and first[2] != pod.number and not pod.stopped)
        ended = pod.describe(by_another=by_another)
        if by_another and first:
            ended.why = f"it was ended because node {first[2]} had ended"
        elif pod.stopped or ended.why is None:
            ended.why = pod.reason.text if pod.reason else None
        if self.left and not pod.has_ended:
            ended.why = self.left
        return ended

    def _watch(self) -> None:
        """Take every change of the job's pods, in a thread of its own."""
        while not self._is_over:
            with suppress(ClusterError, ValueError, LookupError, TypeError):  # a reply that a proxy broke, too
                self._take_changes(self._list())
            clock.sleep(AGAIN_SECONDS)

    def _list(self) -> str:
        """Take the pods as they are, and return the place in their history."""
        found = self._cluster.get(self._cluster.path(PODS), labelSelector=selector(self._kind, self._name))
        states = {state["metadata"]["uid"]: state for state in found.get("items", [])}
        for pod in self.nodes:
            pod.is_gone = pod.is_gone or bool(pod.state and pod.state.uid not in states)
        for state in states.values():
            self._take("MODIFIED", state)
        self._listed.set()
        return str(found["metadata"]["resourceVersion"])

    def _take_changes(self, version: str) -> None:
        """Take changes until the connection ends or its place in history is forgotten."""
        own = selector(self._kind, self._name)
        query = {"labelSelector": own, "resourceVersion": version, "timeoutSeconds": WATCH_SECONDS}
        rest = b""
        for data in self._cluster.stream(self._cluster.path(PODS), watch="true", **query):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if self._is_over or event["type"] == "ERROR":
                    return
                if event["type"] != "BOOKMARK":
                    self._take(event["type"], event["object"])


def selector(kind: str, job: str) -> str:
    """Return what the pods of a job are found by."""
    return f"{_SELECTORS[kind]}={job}"
