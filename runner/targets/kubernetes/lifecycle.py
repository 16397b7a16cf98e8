"""The life of a job of ours: created, followed to its end or ended, and removed, also after its runner was killed."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Lock
from typing import Any

from runner.core import clock
from runner.records.folder import RunFolder
from runner.targets.base import Line, Note
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError
from runner.targets.kubernetes.job import COMES_TOO_SOON
from runner.targets.kubernetes.pod_state import container_of, node_of
from runner.targets.kubernetes.watcher import POLL_SECONDS, JobWatcher, selector
from runner.targets.worker_logs import GRACE_SECONDS

END_SECONDS = 60.0
"""How long all may take to go, also while the API server does not answer; the grace of pods is half of it at most."""
SETTLE_SECONDS = 5.0
"""For how long no pod may be made again, once one was."""
RUNTIME_SECONDS = 20.0
"""How long Kubeflow Trainer may take to see a runtime that was just created."""
VERDICT_SECONDS = 30.0
"""How long the job's controller may take to see that all pods have ended."""


class JobHandle(JobWatcher):
    """The objects of one run, the last of which is the job, and its pods."""

    def __init__(self, cluster: Cluster, documents: list[dict[str, Any]], folder: RunFolder, nodes: int) -> None:
        job = documents[-1]
        super().__init__(cluster, job["kind"], job["metadata"]["name"], folder, nodes)
        self._documents = documents
        self._pool = ThreadPoolExecutor(1)
        self._creating = Lock()
        self._is_stopped = False
        self._is_begun = False
        self._is_removed = False

    def lines(self) -> Iterator[Line | Note | None]:
        """Create the job and follow its pods; if a node fails, the others get a grace; then remove the job."""
        self._is_begun = True
        creation = self._pool.submit(self._post)  # by another thread, so that Ctrl-C cuts no request off
        while not creation.done():
            yield None
            wait([creation], POLL_SECONDS)
        creation.result()
        deadline = math.inf
        for line in self.follow():
            yield line
            if deadline == math.inf and line is None and any(pod.failed for pod in self.nodes):
                deadline = clock.monotonic() + GRACE_SECONDS
            if clock.monotonic() > deadline:
                break
        else:  # until the job's controller has seen the end too, it makes deleted pods again
            until = clock.monotonic() + VERDICT_SECONDS
            while not self.has_ended() and clock.monotonic() < until:
                clock.sleep(POLL_SECONDS)
        self._remove()
        yield from self.said()
        if self.left:
            yield Note(self.left)

    def stop(self) -> None:
        """End the pods, keep what they print until then, and remove the job."""
        with self._creating:  # a request that is on its way would create its object after the deletion
            self._is_stopped = True
        self._remove()

    def _post(self) -> None:
        """Create the objects until the run is stopped; Ctrl-C may come before the pool knows its own thread."""
        for document in self._documents:
            until = clock.monotonic() + RUNTIME_SECONDS
            while not self._create(document, is_last_try=clock.monotonic() > until):
                clock.sleep(POLL_SECONDS)

    def _create(self, document: dict[str, Any], *, is_last_try: bool) -> bool:
        """Create an object, unless the run is stopped; False if it has to be tried again."""
        with self._creating:
            if self._is_stopped:
                return True
            try:
                self._cluster.post(self._cluster.path(document["kind"]), document, fieldValidation="Strict")
            except ClusterError as error:
                if is_last_try or COMES_TOO_SOON not in str(error):
                    raise
                return False
            return True

    def _remove(self) -> None:
        """Delete what was made, keep what pods print until they have ended, and wait until all is gone."""
        if self._is_begun and not self._is_removed and not self.left:
            for pod in self.nodes:
                pod.stopped = pod.stopped or not pod.has_ended
            try:
                self._delete()
                until = clock.monotonic() + END_SECONDS
                for pod in self.nodes:
                    if pod.state:
                        pod.wait(max(0.0, until - clock.monotonic()))
                self._delete()  # pods that were made meanwhile, too
                self._wait_for_none()
            except ClusterError as error:
                kinds = ",".join(document["kind"].lower() for document in reversed(self._documents))
                self.left = f"{error}: left behind; kubectl delete -n {self._cluster.namespace} {kinds} {self._name}"
        self._is_removed = True
        super().stop()

    def _delete(self) -> None:
        """Ask for the end of the job, then of its pods, which it makes again; again and again while nobody answers."""
        until, grace = clock.monotonic() + END_SECONDS, {"gracePeriodSeconds": round(GRACE_SECONDS)}
        while True:
            try:
                for document in reversed(self._documents):
                    path = self._cluster.path(document["kind"], document["metadata"]["name"])
                    self._cluster.delete(path, propagationPolicy="Background")
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

    def _wait_for_none(self) -> None:
        """Wait until no pod is left; an operator that sees the end late makes new ones, one after the other."""
        known = [pod.state.uid for pod in self.nodes]
        until, settled = clock.monotonic() + END_SECONDS, 0.0
        while clock.monotonic() < until:
            with suppress(ClusterError):
                found = _pods(self._cluster, self._kind, self._name)
                if not found and clock.monotonic() > settled:
                    return
                for pod in found:
                    if node_of(pod) >= 0 and pod["metadata"]["uid"] not in known:
                        self._cluster.delete(self._cluster.path(PODS, pod["metadata"]["name"]), gracePeriodSeconds=0)
                        settled = clock.monotonic() + SETTLE_SECONDS
            clock.sleep(POLL_SECONDS)
        raise ClusterError(0, f"the pods of {self._name} do not go")


def end_remains(cluster: Cluster, kinds: Sequence[str], name: str, folder: RunFolder, nodes: int) -> None:
    """Keep the logs of a run's pods, delete its objects, the last of which is the job, and wait for the pods to go.

    Raises OSError if the cluster does not answer or refuses it, or if the pods do not go.
    """
    for pod in _pods(cluster, kinds[-1], name):
        if 0 <= node_of(pod) < nodes:
            path = f"{cluster.path(PODS, pod['metadata']['name'])}/log"
            with suppress(ClusterError):  # there is no log of a container that never started
                folder.keep_longer_agent(node_of(pod), cluster.stream(path, container=container_of(pod)))
    for kind in reversed(kinds):
        cluster.delete(cluster.path(kind, name), propagationPolicy="Background")
    until = clock.monotonic() + END_SECONDS
    while _pods(cluster, kinds[-1], name):
        if clock.monotonic() > until:
            raise ClusterError(0, f"the pods of {name} do not go: kubectl delete -n {cluster.namespace} pod ...")
        clock.sleep(POLL_SECONDS)


def _pods(cluster: Cluster, kind: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get(cluster.path(PODS), labelSelector=selector(kind, name)).get("items", [])
    return found
