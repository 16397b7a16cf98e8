"""A job that is only watched: its pods are followed and their logs are read; nothing is created or deleted."""

from __future__ import annotations

import queue
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from runner.core import clock
from runner.records.folder import RunFolder
from runner.records.schema import NodeExit
from runner.targets.base import Line, Note
from runner.targets.kubernetes import pending
from runner.targets.kubernetes.client import Cluster, ClusterError
from runner.targets.kubernetes.pod_state import node_of
from runner.targets.kubernetes.pod_watch import PodWatch
from runner.targets.kubernetes.pods import Pod
from runner.targets.node_view import NodeView, at_once, by_node

POLL_SECONDS = 0.2
PULL_SECONDS = 60.0
"""How long an image may fail to be pulled."""
JOB_SECONDS = 3.0
"""How often the job itself is looked at while a pod is missing."""


class JobWatcher:
    """The handle of a job that somebody applied by hand; the handle of a job of ours is built on it.

    Args:
        cluster: where the job is.
        kind: `PyTorchJob`, `TrainJob` or `Job`.
        name: its name.
        folder: the run's folder, into whose raw files the logs go.
        nodes: the number of nodes.
    """

    def __init__(self, cluster: Cluster, kind: str, name: str, folder: RunFolder, nodes: int) -> None:
        self._cluster = cluster
        self._kind, self._name = kind, name
        self._queue: queue.SimpleQueue[Line | Note] = queue.SimpleQueue()
        self.pods = [Pod(cluster, node, folder.open_agent(node), self._queue) for node in range(nodes)]
        self._watch: PodWatch | None = None
        self._reasons: dict[int, pending.Reason] = {}
        self._since: dict[int, float] = defaultdict(clock.monotonic)
        self._looked = 0.0

    def lines(self) -> Iterator[Line | Note | None]:
        """Follow the pods until all have ended."""
        yield from self.follow()
        self.stop()

    @property
    def exits(self) -> list[NodeExit]:
        """How the pod of each node ended; one that never started says why."""
        return [self._exit(pod) for pod in self.pods]

    def idle(self) -> list[NodeView]:
        """Name the pods that do not run, with what the cluster says of them."""
        return [NodeView(pod.node, idle=self._idle(pod)) for pod in self.pods if not self._runs(pod)]

    def look(self, *, abort: bool = False) -> list[NodeView]:
        """Look into the pods that run, all at once."""
        running = [pod for pod in self.pods if self._runs(pod)]
        return by_node([*at_once(lambda pod: pod.look(abort=abort), running), *self.idle()])

    def _runs(self, pod: Pod) -> bool:
        return pod.state.is_running and not pod.has_ended

    def _idle(self, pod: Pod) -> str:
        reason = self._reasons.get(pod.node)
        why = f": {reason.text}" if reason else ""
        return "its pod has ended" if pod.has_ended else f"its pod has not started{why}"

    def stop(self) -> None:
        """Look no further; the job is left alone."""
        if self._watch:
            self._watch.end()

    def follow(self) -> Iterator[Line | Note | None]:
        """Yield what the pods print until all of it is read; the pods are watched on until `stop`."""
        self._watch = PodWatch(self._cluster, self._kind, self._name, self._take)
        while not all(pod.is_read for pod in self.pods):
            self._look(self._watch)
            yield from self.said()
            yield None  # also while lines come without end, so that a deadline is seen
            clock.sleep(POLL_SECONDS)
        yield from self.said()

    def said(self) -> Iterator[Line | Note]:
        """Yield what has come since the last time; raise OSError if a log could not be kept."""
        with suppress(queue.Empty):
            for _ in range(self._queue.qsize()):
                yield self._queue.get_nowait()
        for pod in self.pods:
            pod.raise_failure()

    def _take(self, what: str, state: dict[str, Any]) -> None:
        """Take a change of a pod; a second pod for a node means that somebody deleted the first."""
        node = node_of(state)
        if not 0 <= node < len(self.pods):
            return
        pod = self.pods[node]
        if pod.is_gone:
            return
        if pod.state and pod.state.uid != state["metadata"]["uid"]:
            pod.is_gone = True
            return
        pod.seen(state)
        if what == "DELETED":
            pod.is_gone = True

    def _look(self, watch: PodWatch) -> None:
        """Find out why nodes have not started; raise OSError if one never will."""
        missing = [pod for pod in self.pods if not pod.has_ended and not pod.state.is_running]
        for node in set(self._reasons) - {pod.node for pod in missing}:
            del self._reasons[node]
        absent = [pod for pod in missing if not pod.state]
        of_job = self._look_at_job(absent) if absent and watch.listed.is_set() else None
        for pod in missing:
            reason = pending.of_pod(pod.state.raw) if pod.state else of_job
            if reason is None:
                continue
            before = self._reasons.get(pod.node)
            self._reasons[pod.node] = reason
            if before is None or before.key != reason.key:
                self._since[pod.node] = clock.monotonic()
                self._queue.put(Note(f"node {pod.node} {reason.text}"))
            elif reason.is_hopeless or (reason.key == "pulling" and self._seconds(pod) > PULL_SECONDS):
                raise OSError(f"node {pod.node} cannot start: {reason.text}")

    def _seconds(self, pod: Pod) -> float:
        """Return for how long the reason has been the same."""
        return clock.monotonic() - self._since[pod.node]

    def _look_at_job(self, absent: list[Pod]) -> pending.Reason | None:
        """Ask the job why it has no pods; one that has ended or is gone will have none."""
        if clock.monotonic() - self._looked < JOB_SECONDS:
            return self._reasons.get(absent[0].node)
        self._looked = clock.monotonic()
        if self.has_ended():
            for pod in absent:
                pod.give_up()
        return pending.of_job(self._cluster, self._kind, self._name)

    def has_ended(self) -> bool:
        """Whether the job's controller has seen its end, or the job is gone."""
        try:
            job = self._cluster.get(self._cluster.path(self._kind, self._name))
        except ClusterError as error:
            return error.is_absence
        conditions = (job.get("status") or {}).get("conditions") or []
        return any(one["type"] in ("Succeeded", "Complete", "Failed") and one["status"] == "True" for one in conditions)

    def _exit(self, pod: Pod) -> NodeExit:
        """Tell a pod that the job's controller ended, because another had ended first, from one that was deleted."""
        ends = [(one.state.deleted or one.state.finished, one.noticed, one.node) for one in self.pods]
        first = min(((when, noticed, node) for when, noticed, node in ends if when), default=None)
        by_another = bool(pod.state.deleted and first and first[2] != pod.node and not pod.stopped)
        ended = pod.exit(by_another=by_another)
        if by_another and first:
            ended.why = f"it was ended because node {first[2]} had ended"
        elif pod.stopped or ended.why is None:
            ended.why = self._reasons[pod.node].text if pod.node in self._reasons else None
        return ended
