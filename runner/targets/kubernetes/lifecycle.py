"""The life of a job of ours: created, followed to its end or ended, and removed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Lock
from typing import Any

from runner.core import clock
from runner.records.folder import RunFolder
from runner.records.schema import NodeExit
from runner.targets.base import Line, Note
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError
from runner.targets.kubernetes.pod_state import node_of
from runner.targets.kubernetes.pod_watch import selector
from runner.targets.kubernetes.trainjob import COMES_TOO_SOON
from runner.targets.kubernetes.watcher import POLL_SECONDS, JobWatcher
from runner.targets.node_view import NodeView
from runner.targets.worker_logs import GRACE_SECONDS

__all__ = ["JobHandle", "JobWatcher"]
END_SECONDS = 60.0
"""How long all may take to go; also while the API server does not answer."""
SETTLE_SECONDS = 5.0
"""For how long no pod may be made again, once one was."""
RUNTIME_SECONDS = 20.0
"""How long Kubeflow Trainer may take to see a runtime that was just created."""
VERDICT_SECONDS = 30.0
"""How long the job's controller may take to see that all pods have ended."""


class JobHandle:
    """The objects of one run, the last of which is the job, and its pods."""

    def __init__(self, cluster: Cluster, documents: list[dict[str, Any]], folder: RunFolder, nodes: int) -> None:
        self._cluster = cluster
        self._documents = documents
        self._kind, self._name = documents[-1]["kind"], documents[-1]["metadata"]["name"]
        self._watcher = JobWatcher(cluster, self._kind, self._name, folder, nodes)
        self._pool = ThreadPoolExecutor(1)
        self._creating = Lock()
        self._is_stopped = False
        self._is_begun = False
        self._is_removed = False
        self._left: str | None = None
        """What could not be deleted, and how to do it."""

    def lines(self) -> Iterator[Line | Note | None]:
        """Create the job and follow its pods; if a node fails, the others get a grace; then remove the job."""
        yield from self._create()
        deadline = math.inf
        for line in self._watcher.follow():
            yield line
            if deadline == math.inf and line is None and any(pod.failed for pod in self._watcher.pods):
                deadline = clock.monotonic() + GRACE_SECONDS
            if clock.monotonic() > deadline:
                self._end_pods()
                break
        else:
            self._wait_for_verdict()
        yield from self._watcher.said()
        self._remove()
        if self._left:
            yield Note(self._left)

    @property
    def exits(self) -> list[NodeExit]:
        """How the pod of each node ended; one that never started says why."""
        exits = self._watcher.exits
        for pod, ended in zip(self._watcher.pods, exits, strict=True):
            if self._left and not pod.has_ended:
                ended.why = self._left
        return exits

    def idle(self) -> list[NodeView]:
        """Name the pods that do not run."""
        return self._watcher.idle()

    def look(self, *, abort: bool = False) -> list[NodeView]:
        """Look into the pods."""
        return self._watcher.look(abort=abort)

    def stop(self) -> None:
        """End the pods, keep what they print until then, and remove the job."""
        with self._creating:  # a request that is on its way would create its object after the deletion
            self._is_stopped = True
        self._end_pods()
        self._remove()

    def _create(self) -> Iterator[None]:
        """Create the objects in a thread of its own, so that Ctrl-C cuts no request off."""
        self._is_begun = True
        creation = self._pool.submit(self._post)
        while not creation.done():
            yield None
            wait([creation], POLL_SECONDS)
        creation.result()

    def _post(self) -> None:
        """Create the objects until the run is stopped; Ctrl-C may come before the pool knows its own thread."""
        for document in self._documents:
            until = clock.monotonic() + RUNTIME_SECONDS
            while not self._post_one(document, is_last_try=clock.monotonic() > until):
                clock.sleep(POLL_SECONDS)

    def _post_one(self, document: dict[str, Any], *, is_last_try: bool) -> bool:
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

    def _end_pods(self) -> None:
        """Delete the job, then its pods: they are made again as long as the job exists."""
        if not self._is_begun or self._is_removed:
            return
        pods = self._watcher.pods
        for pod in pods:
            pod.stopped = not pod.has_ended
        try:
            self._delete()
        except ClusterError as error:
            self._keep_left(error)
            return
        until = clock.monotonic() + END_SECONDS
        for pod in pods:
            if pod.state:
                pod.join(max(0.0, until - clock.monotonic()))

    def _delete(self) -> None:
        """Ask for the end of everything that was made, again and again while nobody answers."""
        until = clock.monotonic() + END_SECONDS
        while True:
            try:
                for document in reversed(self._documents):
                    path = self._cluster.path(document["kind"], document["metadata"]["name"])
                    self._cluster.delete(path, propagationPolicy="Background")
                self._delete_pods()
            except ClusterError:
                if clock.monotonic() > until:
                    raise
                clock.sleep(1)
            else:
                return

    def _delete_pods(self) -> None:
        grace = {"gracePeriodSeconds": round(GRACE_SECONDS)}
        for pod in self._watcher.pods:
            if pod.state and not pod.is_gone:
                with suppress(ClusterError):  # without the right to, they go by their own grace
                    path = self._cluster.path(PODS, pod.state.name)
                    self._cluster.delete(path, **grace, preconditions={"uid": pod.state.uid})

    def _remove(self) -> None:
        """Delete what was made, and wait until it is gone."""
        if self._is_begun and not self._is_removed and self._left is None:
            try:
                self._delete()
                self._wait_for_none()
            except ClusterError as error:
                self._keep_left(error)
        self._is_removed = True
        self._watcher.stop()

    def _keep_left(self, error: ClusterError) -> None:
        kinds, namespace = ",".join(one["kind"].lower() for one in reversed(self._documents)), self._cluster.namespace
        self._left = f"{error}: left behind; kubectl delete -n {namespace} {kinds} {self._name}"

    def _wait_for_verdict(self) -> None:
        """Wait until the job's controller has seen the end too: until then it makes deleted pods again."""
        until = clock.monotonic() + VERDICT_SECONDS
        while not self._watcher.has_ended() and clock.monotonic() < until:
            clock.sleep(POLL_SECONDS)

    def _wait_for_none(self) -> None:
        """Wait until no pod is left; an operator that sees the end late makes new ones, one after the other."""
        known = [pod.state.uid for pod in self._watcher.pods]
        own = selector(self._kind, self._name)
        until, settled = clock.monotonic() + END_SECONDS, 0.0
        while clock.monotonic() < until:
            with suppress(ClusterError):
                found = self._cluster.get(self._cluster.path(PODS), labelSelector=own).get("items", [])
                if not found and clock.monotonic() > settled:
                    return
                for pod in found:
                    if node_of(pod) >= 0 and pod["metadata"]["uid"] not in known:
                        self._cluster.delete(self._cluster.path(PODS, pod["metadata"]["name"]), gracePeriodSeconds=0)
                        settled = clock.monotonic() + SETTLE_SECONDS
            clock.sleep(POLL_SECONDS)
        raise ClusterError(0, f"the pods of {self._name} do not go")
