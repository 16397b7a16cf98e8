"""Handles of a job: JobWatcher follows its pods, and JobHandle also creates and deletes objects."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

from runner.core import clock
from runner.records.folder import RunFolder
from runner.records.schema import NodeExit
from runner.targets.base import Note
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError
from runner.targets.kubernetes.job import COMES_TOO_SOON
from runner.targets.kubernetes.pod_state import container_of, node_of, reason_of_job
from runner.targets.kubernetes.pods import AGAIN_SECONDS, Pod
from runner.targets.worker_logs import GRACE_SECONDS, POLL_SECONDS, WorkersHandle

JOB_SECONDS = 3.0
"""Interval between requests for the job while one of its pods is missing."""
END_SECONDS = 60.0
"""Time limit for deleting everything, even if the API server is down; at least twice the pods' grace period."""
SETTLE_SECONDS = 5.0
"""How long to check for more pods after the operator has recreated one."""
RUNTIME_SECONDS = 20.0
"""How long Kubeflow Trainer may take to notice a new TrainingRuntime."""
VERDICT_SECONDS = 30.0
"""How long the job's controller may take to notice that all pods have ended."""
Object = dict[str, Any]
_SELECTORS = {
    "PyTorchJob": "training.kubeflow.org/job-name",
    "TrainJob": "jobset.sigs.k8s.io/jobset-name",  # a JobSet is named like its TrainJob
    "Job": "job-name",
}


class JobWatcher(WorkersHandle):
    """Follow the pods of a job that was applied by hand, without creating or deleting anything."""

    nodes: Sequence[Pod]

    def __init__(self, cluster: Cluster, kind: str, name: str, folder: RunFolder, nodes: int) -> None:
        super().__init__(folder, [Pod(cluster, node, folder.open_agent(node)) for node in range(nodes)])
        self._cluster, self._kind, self._name = cluster, kind, name
        self._looked = 0.0
        self._is_listed = False
        self._is_over = False

    def stop(self) -> None:
        """Stop following the pods; the job continues."""
        self._is_over = True
        for pod in self.nodes:
            pod.is_left = True

    def _start(self) -> Iterator[Note | None]:
        threading.Thread(target=self._watch, daemon=True).start()
        for pod in self.nodes:
            pod.begin()
        yield None

    def _end(self) -> None:
        """Do nothing: if a node fails, the job's controller ends the other nodes."""

    def _finish(self) -> Iterator[Note | None]:
        yield from super()._said()
        self.stop()

    def _said(self) -> Iterator[Note]:
        for pod in self.nodes:
            if pod.has_ended or pod.state.is_running:
                pod.reason = None
            elif pod.state:
                pod.wait_because(pod.state.reason)
        absent = [pod for pod in self.nodes if not pod.state and not pod.is_gone]
        if absent and self._is_listed and clock.monotonic() - self._looked >= JOB_SECONDS:
            self._looked = clock.monotonic()
            is_over, reason = self._has_ended(), reason_of_job(self._cluster, self._kind, self._name)
            for pod in absent:
                pod.wait_because(reason)
                pod.is_gone = pod.is_gone or is_over
        yield from super()._said()

    def _has_ended(self) -> bool:
        try:
            job = self._cluster.get(self._cluster.path(self._kind, self._name))
        except ClusterError as error:
            return error.is_absence
        conditions = (job.get("status") or {}).get("conditions") or []
        true = [condition["type"] for condition in conditions if condition["status"] == "True"]
        return not {"Succeeded", "Complete", "Failed"}.isdisjoint(true)

    def _exits(self) -> list[NodeExit]:
        # The controller deletes the other pods after the first end.
        over = [pod for pod in self.nodes if pod.state.over]
        first = min(over, key=lambda pod: (pod.state.over, pod.noticed, pod.number), default=None)
        exits = []
        for pod in self.nodes:
            by_another = bool(first and pod is not first and pod.state.deleted and not pod.stopped)
            ended = pod.describe(by_another=by_another)
            if first and by_another:
                ended.why = f"the job's controller ended its pod because node {first.number} had ended"
            elif pod.stopped or ended.why is None:
                ended.why = pod.reason.text if pod.reason else None
            if self.left and not pod.has_ended:
                ended.why = self.left
            exits.append(ended)
        return exits

    def _watch(self) -> None:
        own, path = selector(self._kind, self._name), self._cluster.path(PODS)
        while not self._is_over:
            with suppress(Exception):  # a lost connection, or a reply that a proxy damaged
                found = self._cluster.get(path, labelSelector=own)
                known = [state["metadata"]["uid"] for state in found["items"]]
                for pod in self.nodes:  # a missing pod was deleted between two watches
                    pod.is_gone = pod.is_gone or bool(pod.state and pod.state.uid not in known)
                for state in found["items"]:
                    self._take("MODIFIED", state)
                self._is_listed = True
                version = found["metadata"]["resourceVersion"]
                for event in self._cluster.watch(path, labelSelector=own, resourceVersion=version):
                    if self._is_over:
                        return
                    self._take(event["type"], event["raw_object"])
            clock.sleep(AGAIN_SECONDS)

    def _take(self, what: str, state: Object) -> None:
        node = node_of(state)
        if not 0 <= node < len(self.nodes) or self.nodes[node].is_gone:
            return
        pod = self.nodes[node]
        if pod.state and pod.state.uid != state["metadata"]["uid"]:  # a replacement: the first pod was deleted
            pod.is_gone = True
            return
        pod.seen(state)
        pod.is_gone = what == "DELETED"


class JobHandle(JobWatcher):
    """Create a run's objects, follow the job's pods and delete everything at the end.

    The last of `documents` is the job. The job owns the objects in `brought`, so the cluster deletes them with the job.
    """

    def __init__(
        self, cluster: Cluster, documents: list[Object], brought: list[Object], folder: RunFolder, nodes: int
    ) -> None:
        job = documents[-1]
        super().__init__(cluster, job["kind"], job["metadata"]["name"], folder, nodes)
        self._documents, self._brought = documents, brought
        self._kinds = [document["kind"] for document in documents]
        self._creating = threading.Lock()
        self._is_stopped = self._is_begun = self._is_removed = False

    def stop(self) -> None:
        """Delete the job and its pods. The pods' output is saved until they have ended."""
        with self._creating:  # otherwise a request in flight creates its object after the deletion
            self._is_stopped = True
        self._end()

    def _start(self) -> Iterator[Note | None]:
        self._is_begun = True
        creation = ThreadPoolExecutor(1).submit(self._create_all)  # Ctrl-C interrupts no request in a thread
        while not creation.done():
            yield None
            wait([creation], POLL_SECONDS)
        creation.result()
        yield from super()._start()

    def _create_all(self) -> None:
        job = [self._create(document) for document in self._documents][-1]
        for document in self._brought if job else ():
            owner = {"apiVersion": self._documents[-1]["apiVersion"], "kind": self._kind}
            document["metadata"]["ownerReferences"] = [{**owner, "name": self._name, "uid": job["metadata"]["uid"]}]
            self._create(document)

    def _create(self, document: Object) -> Object:
        """Create an object, unless the run was stopped. If Trainer has not noticed a new TrainingRuntime, retry."""
        until = clock.monotonic() + RUNTIME_SECONDS
        while True:
            with self._creating:
                if self._is_stopped:
                    return {}
                try:
                    return self._cluster.post(self._cluster.path(document["kind"]), document, fieldValidation="Strict")
                except ClusterError as error:
                    if COMES_TOO_SOON not in str(error) or clock.monotonic() > until:
                        raise
            clock.sleep(POLL_SECONDS)

    def _finish(self) -> Iterator[Note | None]:
        """Delete the job after its controller has marked it as ended. Earlier, the controller would recreate pods."""
        until = clock.monotonic() + VERDICT_SECONDS
        while not self._has_ended() and clock.monotonic() < until:
            yield None
            clock.sleep(POLL_SECONDS)
        self._end()
        yield from super()._finish()

    def _end(self) -> None:
        if self._is_begun and not self._is_removed:
            for pod in self.nodes:
                pod.stopped = pod.stopped or not pod.has_ended
            try:
                known = self._delete()
                until = clock.monotonic() + END_SECONDS
                for pod in self.nodes:
                    if pod.state:
                        pod.wait(max(0.0, until - clock.monotonic()))
                wait_for_none(self._cluster, self._kind, self._name, known)
            except ClusterError as error:
                kinds = ",".join(reversed(self._kinds)).lower()
                command = f"kubectl delete -n {self._cluster.namespace} {kinds} {self._name}"
                self.left = f"{error}: the job may be left behind; delete it with: {command}"
        self._is_removed = True
        super().stop()

    def _delete(self) -> list[str]:
        """Delete the run's objects, then the pods. Returns the pods' uids.

        While the job exists, it recreates pods. If the objects cannot be deleted, retry.
        """
        until, grace = clock.monotonic() + END_SECONDS, {"gracePeriodSeconds": round(GRACE_SECONDS)}
        while True:
            try:
                delete_objects(self._cluster, self._kinds, self._name)
            except ClusterError:
                if clock.monotonic() > until:
                    raise
                clock.sleep(1)
            else:
                break
        pods = [pod.state for pod in self.nodes if pod.state and not pod.is_gone]
        for pod in pods:
            with suppress(ClusterError):  # not permitted: the pods' own grace period applies
                self._cluster.delete(self._cluster.path(PODS, pod.name), **grace, preconditions={"uid": pod.uid})
        return [pod.uid for pod in pods]


def end_remains(cluster: Cluster, kinds: Sequence[str], name: str, folder: RunFolder, nodes: int) -> None:
    """Save the logs of a run's pods, delete the run's objects and wait until the pods are deleted.

    Raises OSError if the cluster does not answer, refuses a request, or still has pods when the wait ends.
    """
    found = pods_of(cluster, kinds[-1], name)
    for pod in found:
        if 0 <= node_of(pod) < nodes:
            path = f"{cluster.path(PODS, pod['metadata']['name'])}/log"
            with suppress(ClusterError):  # a container that never started has no log
                folder.keep_longer_agent(node_of(pod), cluster.stream(path, container=container_of(pod)))
    delete_objects(cluster, kinds, name)
    wait_for_none(cluster, kinds[-1], name, [pod["metadata"]["uid"] for pod in found])


def delete_objects(cluster: Cluster, kinds: Sequence[str], name: str) -> None:
    """Delete a run's objects, the job first."""
    for kind in reversed(kinds):
        cluster.delete(cluster.path(kind, name), propagationPolicy="Background")


def wait_for_none(cluster: Cluster, kind: str, name: str, known: list[str]) -> None:
    """Wait until a job has no pods. Raises ClusterError if pods remain.

    An operator that notices the end late recreates pods. So delete pods that are not `known`.
    """
    until, settled = clock.monotonic() + END_SECONDS, 0.0
    while clock.monotonic() < until:
        with suppress(ClusterError):
            found = pods_of(cluster, kind, name)
            if not found and clock.monotonic() > settled:
                return
            for pod in found:
                if node_of(pod) >= 0 and pod["metadata"]["uid"] not in known:
                    cluster.delete(cluster.path(PODS, pod["metadata"]["name"]), gracePeriodSeconds=0)
                    settled = clock.monotonic() + SETTLE_SECONDS
        clock.sleep(POLL_SECONDS)
    raise ClusterError(0, f"the pods of job {name} still exist after {END_SECONDS:g} s")


def pods_of(cluster: Cluster, kind: str, name: str) -> list[Object]:
    """Return the pods of a job."""
    found: list[Object] = cluster.get(cluster.path(PODS), labelSelector=selector(kind, name))["items"]
    return found


def selector(kind: str, job: str) -> str:
    """Return the label selector for the pods of a job."""
    return f"{_SELECTORS[kind]}={job}"
