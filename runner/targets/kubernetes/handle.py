"""A job and its pods: watched while they run, and, if the job is ours, created, ended and removed."""

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
from runner.targets.kubernetes.pod_state import Reason, container_of, node_of, reason_of_job, reason_of_pod
from runner.targets.kubernetes.pods import Pod
from runner.targets.worker_logs import GRACE_SECONDS, POLL_SECONDS, WorkersHandle

PULL_SECONDS = 60.0
"""How long an image may fail to be pulled."""
JOB_SECONDS = 3.0
"""How often the job itself is looked at while a pod is missing."""
AGAIN_SECONDS = 0.3
END_SECONDS = 60.0
"""How long all may take to go, also while the API server does not answer; the grace of pods is half of it at most."""
SETTLE_SECONDS = 5.0
"""For how long no pod may be made again, once one was."""
RUNTIME_SECONDS = 20.0
"""How long Kubeflow Trainer may take to see a runtime that was just created."""
VERDICT_SECONDS = 30.0
"""How long the job's controller may take to see that all pods have ended."""
Object = dict[str, Any]
_SELECTORS = {
    "PyTorchJob": "training.kubeflow.org/job-name",
    "TrainJob": "jobset.sigs.k8s.io/jobset-name",  # the JobSet has the name of its TrainJob
    "Job": "job-name",
}


class JobWatcher(WorkersHandle):
    """A job that somebody applied by hand: its pods are followed, and nothing is created or deleted."""

    nodes: Sequence[Pod]

    def __init__(self, cluster: Cluster, kind: str, name: str, folder: RunFolder, nodes: int) -> None:
        super().__init__(folder, [Pod(cluster, node, folder.open_agent(node)) for node in range(nodes)])
        self._cluster, self._kind, self._name = cluster, kind, name
        self._looked = 0.0
        self._listed = threading.Event()
        """Set once the pods that existed at first are known."""
        self._is_over = False

    def stop(self) -> None:
        """Look no further; the job is left alone."""
        self._is_over = True
        for pod in self.nodes:
            pod.is_left = True

    def _start(self) -> Iterator[Note | None]:
        threading.Thread(target=self._watch, daemon=True).start()
        for pod in self.nodes:
            pod.begin()
        yield None

    def _end(self) -> None:
        """Leave the other nodes to the job's controller."""

    def _finish(self) -> Iterator[Note | None]:
        yield from super()._said()
        self.stop()

    def _said(self) -> Iterator[Note]:
        self._look()
        yield from super()._said()

    def _look(self) -> None:
        """Find out why nodes have not started; raise OSError if one never will."""
        for pod in self.nodes:
            if pod.has_ended or pod.state.is_running:
                pod.reason = None
        missing = [pod for pod in self.nodes if not pod.has_ended and not pod.state.is_running]
        absent = [pod for pod in missing if not pod.state]
        of_job = self._look_at_job(absent) if absent and self._listed.is_set() else None
        for pod in missing:
            before, reason = pod.reason, reason_of_pod(pod.state) if pod.state else of_job
            if reason is None:
                continue
            pod.reason, now = reason, clock.monotonic()
            if before is None or before.key != reason.key:
                pod.reason_since = now
                pod.notes.append(f"node {pod.number} {reason.text}")
            elif reason.is_hopeless or (reason.key == "pulling" and now - pod.reason_since > PULL_SECONDS):
                raise OSError(f"node {pod.number} cannot start: {reason.text}")

    def _look_at_job(self, absent: list[Pod]) -> Reason | None:
        """Ask the job why it has no pods; one that has ended or is gone will have none."""
        if clock.monotonic() - self._looked < JOB_SECONDS:
            return absent[0].reason
        self._looked = clock.monotonic()
        if self._has_ended():
            for pod in absent:
                pod.is_gone = True
        return reason_of_job(self._cluster, self._kind, self._name)

    def _has_ended(self) -> bool:
        """Return whether the job's controller has seen its end, or the job is gone."""
        try:
            job = self._cluster.get(self._cluster.path(self._kind, self._name))
        except ClusterError as error:
            return error.is_absence
        conditions = (job.get("status") or {}).get("conditions") or []
        true = [condition["type"] for condition in conditions if condition["status"] == "True"]
        return not {"Succeeded", "Complete", "Failed"}.isdisjoint(true)

    def _exits(self) -> list[NodeExit]:
        return [self._exit(pod) for pod in self.nodes]

    def _exit(self, pod: Pod) -> NodeExit:
        """Tell a pod that the job's controller ended, because another had ended first, from one that was deleted."""
        ends = [(other.state.deleted or other.state.finished, other.noticed, other.number) for other in self.nodes]
        first = min((end for end in ends if end[0]), default=(None, 0.0, pod.number))[2]
        by_another = bool(pod.state.deleted and first != pod.number and not pod.stopped)
        ended = pod.describe(by_another=by_another)
        if by_another:
            ended.why = f"it was ended because node {first} had ended"
        elif pod.stopped or ended.why is None:
            ended.why = pod.reason.text if pod.reason else None
        if self.left and not pod.has_ended:
            ended.why = self.left
        return ended

    def _watch(self) -> None:
        """Take every change of the job's pods, in a thread of its own."""
        own, path = selector(self._kind, self._name), self._cluster.path(PODS)
        while not self._is_over:
            with suppress(Exception):  # the connection is lost, or a proxy broke a reply: begin again
                found = self._cluster.get(path, labelSelector=own)
                self._take_all(found["items"])
                version = found["metadata"]["resourceVersion"]
                for event in self._cluster.watch(path, labelSelector=own, resourceVersion=version):
                    if self._is_over:
                        return
                    self._take(event["type"], event["raw_object"])
            clock.sleep(AGAIN_SECONDS)

    def _take_all(self, states: list[Object]) -> None:
        """Take the pods as they are; one that is not among them was deleted meanwhile."""
        known = [state["metadata"]["uid"] for state in states]
        for pod in self.nodes:
            pod.is_gone = pod.is_gone or bool(pod.state and pod.state.uid not in known)
        for state in states:
            self._take("MODIFIED", state)
        self._listed.set()

    def _take(self, what: str, state: Object) -> None:
        """Take a change of a pod; a second pod for a node means that somebody deleted the first."""
        node = node_of(state)
        if not 0 <= node < len(self.nodes) or self.nodes[node].is_gone:
            return
        pod = self.nodes[node]
        if pod.state and pod.state.uid != state["metadata"]["uid"]:
            pod.is_gone = True
            return
        pod.seen(state)
        pod.is_gone = what == "DELETED"


class JobHandle(JobWatcher):
    """The objects of one run, the last of which is the job, and its pods.

    `brought` belongs to the job: the cluster deletes it with the job.
    """

    def __init__(
        self, cluster: Cluster, documents: list[Object], brought: list[Object], folder: RunFolder, nodes: int
    ) -> None:
        job = documents[-1]
        super().__init__(cluster, job["kind"], job["metadata"]["name"], folder, nodes)
        self._documents, self._brought = documents, brought
        self._kinds = [document["kind"] for document in documents]
        self._pool, self._creating = ThreadPoolExecutor(1), threading.Lock()
        self._is_stopped = self._is_begun = self._is_removed = False

    def stop(self) -> None:
        """End the pods, keep what they print until then, and remove the job."""
        with self._creating:  # a request that is on its way would create its object after the deletion
            self._is_stopped = True
        self._end()

    def _start(self) -> Iterator[Note | None]:
        """Create the objects in another thread, so that Ctrl-C cuts no request off."""
        self._is_begun = True
        creation = self._pool.submit(self._create_all)
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
        """Create an object, unless the run is stopped: Ctrl-C may come before the pool knows its own thread."""
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
        """Remove the job; until its controller has seen the end too, it makes deleted pods again."""
        until = clock.monotonic() + VERDICT_SECONDS
        while not self._has_ended() and clock.monotonic() < until:
            yield None
            clock.sleep(POLL_SECONDS)
        self._end()
        yield from super()._finish()

    def _end(self) -> None:
        """Delete what was made, keep what pods print until they have ended, and wait until all is gone."""
        if self._is_begun and not self._is_removed:
            for pod in self.nodes:
                pod.stopped = pod.stopped or not pod.has_ended
            try:
                self._delete()
                until = clock.monotonic() + END_SECONDS
                for pod in self.nodes:
                    if pod.state:
                        pod.wait(max(0.0, until - clock.monotonic()))
                self._delete()  # pods that were made meanwhile, too
                wait_for_none(self._cluster, self._kind, self._name, [pod.state.uid for pod in self.nodes])
            except ClusterError as error:
                kinds = ",".join(reversed(self._kinds)).lower()
                self.left = f"{error}: left behind; kubectl delete -n {self._cluster.namespace} {kinds} {self._name}"
        self._is_removed = True
        super().stop()

    def _delete(self) -> None:
        """Ask for the end of the job, then of its pods, which it makes again; again and again while nobody answers."""
        until, grace = clock.monotonic() + END_SECONDS, {"gracePeriodSeconds": round(GRACE_SECONDS)}
        while True:
            try:
                delete_objects(self._cluster, self._kinds, self._name)
                for pod in self.nodes:
                    if pod.state and not pod.is_gone:
                        with suppress(ClusterError):  # without the right to, they go by their own grace
                            path = self._cluster.path(PODS, pod.state.name)
                            self._cluster.delete(path, **grace, preconditions={"uid": pod.state.uid})
            except ClusterError:
                if clock.monotonic() > until:
                    raise
                clock.sleep(1)
            else:
                return


def end_remains(cluster: Cluster, kinds: Sequence[str], name: str, folder: RunFolder, nodes: int) -> None:
    """Keep the logs of a run's pods, delete its objects, the last of which is the job, and wait for the pods to go.

    Raises OSError if the cluster does not answer or refuses it, or if the pods do not go.
    """
    found = pods_of(cluster, kinds[-1], name)
    for pod in found:
        if 0 <= node_of(pod) < nodes:
            path = f"{cluster.path(PODS, pod['metadata']['name'])}/log"
            with suppress(ClusterError):  # there is no log of a container that never started
                folder.keep_longer_agent(node_of(pod), cluster.stream(path, container=container_of(pod)))
    delete_objects(cluster, kinds, name)
    wait_for_none(cluster, kinds[-1], name, [pod["metadata"]["uid"] for pod in found])


def delete_objects(cluster: Cluster, kinds: Sequence[str], name: str) -> None:
    """Delete a run's objects, the job first."""
    for kind in reversed(kinds):
        cluster.delete(cluster.path(kind, name), propagationPolicy="Background")


def wait_for_none(cluster: Cluster, kind: str, name: str, known: list[str]) -> None:
    """Wait until no pod is left; an operator that sees the end late makes new ones, one after the other."""
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
    raise ClusterError(0, f"the pods of {name} do not go")


def pods_of(cluster: Cluster, kind: str, name: str) -> list[Object]:
    """List the pods of a job."""
    found: list[Object] = cluster.get(cluster.path(PODS), labelSelector=selector(kind, name))["items"]
    return found


def selector(kind: str, job: str) -> str:
    """Return what the pods of a job are found by."""
    return f"{_SELECTORS[kind]}={job}"
