"""Target `kubernetes`: a pod for each node of the layout, as a PyTorchJob or an Indexed Job."""

from __future__ import annotations

import queue
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from runner import cluster as clusters
from runner.cluster import PODS, Cluster, ClusterError
from runner.errors import RequestError, did_you_mean
from runner.manifest import to_yaml
from runner.podfile import KINDS, Wants, job_name
from runner.targets import waiting
from runner.targets.base import Line, Note, Request
from runner.targets.pods import Pod, Watch, node_of, selector
from runner.targets.torchrun import node_requests
from runner.targets.watchdog import release, watch

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from runner.console import Screen
    from runner.plan import Run
    from runner.record import RunFolder
    from runner.schema import NodeExit

POLL_SECONDS = 0.2
GRACE_SECONDS = 10.0
"""What the others get after one node has failed, and what every pod gets to end when it is told to."""
PULL_SECONDS = 60.0
"""How long an image may fail to be pulled."""
JOB_SECONDS = 3.0
"""How often the job itself is looked at while a pod is missing."""
END_SECONDS = 60.0
"""How long all may take to go; also while the API server is away."""
VERDICT_SECONDS = 30.0
"""How long the job's controller may take to see that all pods have ended."""
_BEYOND_SECONDS = 600
_HEADER = """One run as it was started. Again: kubectl create -n {namespace} -f job.yaml"""


@dataclass(frozen=True)
class KubernetesRequest(Request):
    """A run as objects of a cluster; at its start the job gets a name of its own."""

    run: Run = field(kw_only=True, repr=False)
    wants: Wants = field(kw_only=True)
    kind: str = "pytorchjob"
    namespace: str = ""
    file: ClassVar[str] = "job.yaml"

    def documents(self, suffix: str = "") -> list[dict[str, Any]]:
        """Build the objects; the last of them is the job."""
        name = job_name(self.run.experiment.name, str(self.run.cell.layout), suffix)
        return KINDS[self.kind](self.run, name, self.wants)

    def text(self) -> str:
        """Write the manifest."""
        header = _HEADER.format(namespace=self.namespace or "default")
        return "---\n".join(to_yaml(one, "" if number else header) for number, one in enumerate(self.documents()))


def request(run: Run, options: dict[str, str]) -> KubernetesRequest:
    """Build the job of a run."""
    kind = options.get("job", "pytorchjob")
    if kind not in KINDS:
        msg = f"--job {kind}: unknown{did_you_mean(kind, KINDS)}"
        raise RequestError(msg)
    deadline = round(run.experiment.timeout_seconds) + _BEYOND_SECONDS  # for a runner that is killed
    chosen = {name: options[name] for name in ("image", "cpu", "memory", "shm", "data_claim") if name in options}
    wants = Wants(**chosen, deadline_seconds=deadline)
    wants.check()
    nodes = node_requests(run.cell, "node0")
    made = KubernetesRequest(
        nodes,
        str(run.experiment.root),
        {"device": run.device, **options},
        run=run,
        wants=wants,
        kind=kind,
        namespace=options.get("namespace", ""),
    )
    made.documents()
    return made


def check(request: Request) -> None:
    """Look for the cluster, the namespace, the kinds, the rights; let the cluster look at every object."""
    assert isinstance(request, KubernetesRequest)  # noqa: S101 - this module's own
    clusters.check(_reach(request), request.documents())


def image(request: Request, screen: Screen) -> dict[str, Any]:  # noqa: ARG001 - others show how it is built
    """Name the image; the cluster tells its digest when it has been pulled."""
    assert isinstance(request, KubernetesRequest)  # noqa: S101 - this module's own
    job = request.documents()[-1]
    pod = next(iter(job["spec"].get("pytorchReplicaSpecs", {}).values()), job["spec"])["template"]["spec"]
    return {"name": pod["containers"][0]["image"]}


def start(request: Request, folder: RunFolder) -> KubernetesExecution:
    """Make ready to start it; the job is created when its lines are asked for, so that a stop finds it."""
    assert isinstance(request, KubernetesRequest)  # noqa: S101 - this module's own
    documents = request.documents(f"-{folder.path.name[-8:]}")
    return KubernetesExecution(_reach(request), documents, folder, len(request.nodes))


def _reach(request: KubernetesRequest) -> Cluster:
    return Cluster(request.namespace, request.options.get("context", ""))


class KubernetesExecution:
    """A job and its pods; one that was applied by hand is only read."""

    def __init__(
        self, cluster: Cluster, documents: list[dict[str, Any]], folder: RunFolder, nodes: int, *, by_hand: bool = False
    ) -> None:
        self._cluster = cluster
        self._documents = documents
        self._job = documents[-1]["metadata"]["name"]
        self._kind = documents[-1]["kind"]
        self._by_hand = by_hand
        self._made = False
        self._lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self._notes: queue.SimpleQueue[Note] = queue.SimpleQueue()
        self._pods = [Pod(cluster, node, folder.open_agent(node), self._lines) for node in range(nodes)]
        self._watch: Watch | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._reasons: dict[int, waiting.Reason] = {}
        self._since: dict[int, float] = defaultdict(time.monotonic)
        self._looked = 0.0
        self._left: str | None = None
        """What could not be deleted, and how a person does it."""

    def lines(self) -> Iterator[Line | Note | None]:
        """Create the job and follow its pods; where a node fails, the others get a grace."""
        self._create()
        deadline = None
        while not all(pod.is_read for pod in self._pods):
            self._look()
            yield from self._said()
            yield None  # also while lines come without end, so that the time is looked at
            failed = any(pod.is_read and not self._well(pod) for pod in self._pods)
            if failed and deadline is None and not self._by_hand:
                deadline = time.monotonic() + GRACE_SECONDS
            if deadline is not None and time.monotonic() > deadline:
                self._end_pods()
                break
            time.sleep(POLL_SECONDS)
        else:
            self._wait_for_verdict()
        yield from self._said()
        yield from self._remove()

    @property
    def exits(self) -> list[NodeExit]:
        """How each node's pod ended; one that has not says why."""
        return [self._exit(pod) for pod in self._pods]

    def stop(self) -> None:
        """End the pods, keep what they print until then, and remove the job."""
        if self._by_hand:
            return
        self._end_pods()
        for _ in self._remove():
            pass

    def _create(self) -> None:
        if not self._by_hand:
            paths = [self._cluster.path(one["kind"], one["metadata"]["name"]) for one in self._documents]
            self._watchdog = watch(__name__, self._cluster.namespace, self._cluster.context, *reversed(paths))
            for document in self._documents:
                self._made = True
                self._cluster.post(self._cluster.path(document["kind"]), document, fieldValidation="Strict")
        self._watch = Watch(self._cluster, self._kind, self._job, self._told)

    def _told(self, what: str, state: dict[str, Any]) -> None:
        """Take in a change of a pod; a second pod for a node means that somebody deleted the first."""
        node = node_of(state)
        if not 0 <= node < len(self._pods):
            return
        pod = self._pods[node]
        if pod.is_gone:
            return
        if pod.uid and pod.uid != state["metadata"]["uid"]:
            pod.is_gone = True
            return
        pod.seen(state)
        if what == "DELETED":
            pod.is_gone = True

    def _said(self) -> list[Line | Note]:
        """Return what has come since the last time."""
        found: list[Line | Note] = []
        for source in (self._notes, self._lines):
            with suppress(queue.Empty):
                while True:
                    found.append(source.get_nowait())
        return found

    def _look(self) -> None:
        """Find out what nodes wait for that do not run yet; raise OSError where waiting is in vain."""
        waits = [pod for pod in self._pods if not pod.has_ended and "running" not in (pod.container.get("state") or {})]
        for pod in self._pods:
            if pod not in waits:
                self._reasons.pop(pod.node, None)
        absent = [pod for pod in waits if not pod.state]
        of_job = self._look_at_job(absent) if absent and self._watch and self._watch.listed.is_set() else None
        for pod in waits:
            reason = waiting.of_pod(pod.state) if pod.state else of_job
            if reason is None:
                continue
            before = self._reasons.get(pod.node)
            self._reasons[pod.node] = reason
            if before is None or before.key != reason.key:
                self._since[pod.node] = time.monotonic()
                self._notes.put(Note(f"  node {pod.node} {reason.text}"))
            elif reason.is_hopeless or (reason.key == "pulling" and self._waited(pod) > PULL_SECONDS):
                msg = f"node {pod.node} cannot start: {reason.text}"
                raise OSError(msg)

    def _waited(self, pod: Pod) -> float:
        return time.monotonic() - self._since[pod.node]

    def _look_at_job(self, absent: list[Pod]) -> waiting.Reason | None:
        """Ask the job why it has no pods; one that has ended or is gone will have none."""
        if time.monotonic() - self._looked < JOB_SECONDS:
            return self._reasons.get(absent[0].node)
        self._looked = time.monotonic()
        try:
            job = self._cluster.get(self._cluster.path(self._kind, self._job))
        except ClusterError as error:
            if error.is_absence:
                for pod in absent:
                    pod.give_up()
            return None
        if _has_ended(job):
            for pod in absent:
                pod.give_up()
        return waiting.of_job(self._cluster, self._kind, self._job)

    @staticmethod
    def _well(pod: Pod) -> bool:
        return pod.terminated is not None and pod.terminated.get("exitCode") == 0

    def _exit(self, pod: Pod) -> NodeExit:
        """Tell a pod that the job's controller ended, because another had ended first, from one that was deleted."""
        ends = [(one.deleted or one.finished, one.noticed, one.node) for one in self._pods]
        first = min(((when, noticed, node) for when, noticed, node in ends if when), default=None)
        by_another = bool(pod.deleted and first and first[2] != pod.node and not pod.stopped)
        pod.stopped |= by_another
        ended = pod.exit()
        if self._left and not pod.has_ended:
            ended.why = self._left
        elif by_another and first:
            ended.why = f"it was ended because node {first[2]} had ended"
        elif pod.stopped or ended.why is None:
            ended.why = self._reasons[pod.node].text if pod.node in self._reasons else None
        return ended

    def _end_pods(self) -> None:
        """Delete the job, then its pods: those come back where the job is still there."""
        if not self._made:
            return
        for pod in self._pods:
            pod.stopped = not pod.has_ended
        try:
            self._delete()
        except ClusterError as error:
            self._keep_left(error)
            return
        until = time.monotonic() + END_SECONDS
        for pod in self._pods:
            if pod.state:
                pod.join(max(0.0, until - time.monotonic()))

    def _delete(self) -> None:
        """Ask for the end of everything that was made, again and again while nobody answers."""
        until = time.monotonic() + END_SECONDS
        while True:
            try:
                for document in reversed(self._documents):
                    path = self._cluster.path(document["kind"], document["metadata"]["name"])
                    self._cluster.delete(path, propagationPolicy="Background")
                for pod in self._pods:
                    if pod.state and not pod.is_gone:
                        with suppress(ClusterError):  # without the right to, they go by their own grace
                            path = self._cluster.path(PODS, pod.name)
                            self._cluster.delete(
                                path, gracePeriodSeconds=round(GRACE_SECONDS), preconditions={"uid": pod.uid}
                            )
            except ClusterError:
                if time.monotonic() > until:
                    raise
                time.sleep(1)
            else:
                return

    def _remove(self) -> Iterator[Note]:
        """Delete what was made and wait until the cluster has let go of it."""
        if self._made and self._left is None:
            try:
                self._delete()
                self._wait_for_none()
            except ClusterError as error:
                self._keep_left(error)
        if self._left:
            yield Note(self._left)
        self._made = False
        if self._watch:
            self._watch.end()
        if self._watchdog:
            release(self._watchdog)

    def _keep_left(self, error: ClusterError) -> None:
        kind, namespace = self._kind.lower(), self._cluster.namespace
        self._left = f"{error}: left behind; kubectl delete -n {namespace} {kind},service {self._job}"

    def _wait_for_verdict(self) -> None:
        """Wait until the job's controller has seen the end too: until then it makes anew the pods that are deleted."""
        until = time.monotonic() + VERDICT_SECONDS
        while self._made and time.monotonic() < until:
            try:
                if _has_ended(self._cluster.get(self._cluster.path(self._kind, self._job))):
                    return
            except ClusterError as error:
                if error.is_absence:
                    return
            time.sleep(POLL_SECONDS)

    def _wait_for_none(self) -> None:
        """Wait until no pod is left; an operator that hears of the end late may have made a new one."""
        until = time.monotonic() + END_SECONDS
        while time.monotonic() < until:
            with suppress(ClusterError):
                found = self._cluster.get(self._cluster.path(PODS), labelSelector=selector(self._kind, self._job)).get(
                    "items", []
                )
                if not found:
                    return
                for pod in found:
                    if node_of(pod) >= 0 and pod["metadata"]["uid"] not in [one.uid for one in self._pods]:
                        self._cluster.delete(self._cluster.path(PODS, pod["metadata"]["name"]), gracePeriodSeconds=0)
            time.sleep(POLL_SECONDS)
        raise ClusterError(0, f"the pods of {self._job} do not go")


def tidy(namespace: str, context: str, *paths: str) -> None:
    """Delete what a runner that was killed has left."""
    cluster = Cluster(namespace, context)
    for path in paths:
        cluster.delete(path, propagationPolicy="Background")


def _has_ended(job: dict[str, Any]) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(one["type"] in ("Succeeded", "Complete", "Failed") and one["status"] == "True" for one in conditions)
