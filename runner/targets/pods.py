"""The pods of one job, a node each: watched, their logs followed from the first line, asked how they ended."""

from __future__ import annotations

import json
import math
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

from runner.cluster import PODS, ClusterError
from runner.podfile import CONTAINER
from runner.schema import NodeExit
from runner.targets.base import Line, exit_of
from runner.targets.podlog import PodLog

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable, Iterator

    from runner.cluster import Cluster

AGAIN_SECONDS = 0.3
WATCH_SECONDS = 300
_ROLES = {"master": 0, "worker": 1}
_SELECTORS = {"PyTorchJob": "training.kubeflow.org/job-name", "Job": "job-name"}


class Pod:
    """One node's pod: a thread copies its log, each line once, until the container has ended and all of it is kept."""

    def __init__(self, cluster: Cluster, node: int, output: BinaryIO, lines: queue.SimpleQueue[Line]) -> None:
        self.node = node
        self.state: dict[str, Any] = {}
        """What the cluster says of the pod; empty before there is one."""
        self.is_gone = False
        self.is_read = False
        """Whether all that it printed is kept."""
        self.stopped = False
        self.noticed = math.inf
        """When its end, or that somebody asked for it, was first seen here: finer than the cluster's seconds."""
        self._cluster = cluster
        self._output = output
        self._lines = lines
        self._log = PodLog()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    @property
    def name(self) -> str:
        """Its name in the cluster."""
        return str(self.state["metadata"]["name"])

    @property
    def uid(self) -> str:
        """What tells it from a later one of the same name."""
        return str(self.state["metadata"]["uid"]) if self.state else ""

    @property
    def container(self) -> dict[str, Any]:
        """What the kubelet says of the container that trains."""
        found = (self.state.get("status") or {}).get("containerStatuses") or []
        return next((one for one in found if one.get("name") == CONTAINER), {})

    @property
    def terminated(self) -> dict[str, Any] | None:
        """How the container ended, if it has."""
        return (self.container.get("state") or {}).get("terminated")

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more or ever will."""
        ended = self.terminated is not None or (self.state.get("status") or {}).get("phase") in ("Failed", "Succeeded")
        return self.is_gone or ended

    @property
    def finished(self) -> datetime | None:
        """When the container ended, to the second."""
        return _moment((self.terminated or {}).get("finishedAt"))

    @property
    def deleted(self) -> datetime | None:
        """When somebody asked for the end of a pod that still ran, to the second."""
        metadata = self.state.get("metadata") or {}
        due, finished = _moment(metadata.get("deletionTimestamp")), self.finished
        if due is None:
            return None
        asked = due - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        return asked if finished is None or finished >= asked else None

    def seen(self, state: dict[str, Any]) -> None:
        """Take in what the cluster says; the first word starts to follow the log."""
        begins = not self.state
        self.state = state
        if self.terminated or state["metadata"].get("deletionTimestamp"):
            self.noticed = min(self.noticed, time.monotonic())
        if begins:
            self._thread.start()

    def give_up(self) -> None:
        """Do not wait for a pod that will never be there."""
        self.is_gone = True
        if not self.state:
            self._output.close()
            self.is_read = True

    def join(self, seconds: float) -> None:
        """Wait until all is read."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def exit(self) -> NodeExit:
        """Translate the kubelet's words; a pod that is gone or never ran has neither a code nor a signal."""
        ended = self.terminated or {}
        code, name = exit_of(ended.get("exitCode"))
        return NodeExit(
            self.node,
            code,
            name,
            stopped=self.stopped,
            out_of_memory=ended.get("reason") == "OOMKilled",
            removed=bool(self.deleted and not self.stopped),
            why=self._why(ended),
            place=self._place(ended),
        )

    def _why(self, ended: dict[str, Any]) -> str | None:
        """Say what else there is to say of a bad end."""
        status = self.state.get("status") or {}
        words = [status.get("reason"), status.get("message")]  # as of an eviction
        words += [
            f"its init container {one['name']} exited with {code}"
            for one in status.get("initContainerStatuses") or []
            if (code := ((one.get("state") or {}).get("terminated") or {}).get("exitCode"))
        ]
        if self.deleted and not self.stopped:
            words.append("its pod was deleted while it ran")
        elif self.is_gone and not ended:
            words.append("its pod is gone" if self.state else "it never had a pod")
        elif ended.get("reason") not in (None, "Completed", "Error", "OOMKilled"):
            words += [ended.get("reason"), ended.get("message")]
        return ": ".join(str(word) for word in words if word) or None

    def _place(self, ended: dict[str, Any]) -> dict[str, Any]:
        """Name the pod, its machine, its image and what it may use."""
        if not self.state:
            return {}
        spec = self.state["spec"]
        wanted: dict[str, Any] = next((one for one in spec["containers"] if one["name"] == CONTAINER), {})
        facts = {
            "pod": self.name,
            "namespace": self._cluster.namespace,
            "machine": spec.get("nodeName"),
            "image": wanted.get("image"),
            "digest": _digest(self.container.get("imageID") or ""),
            "limits": (wanted.get("resources") or {}).get("limits"),
            "started": ended.get("startedAt"),
            "finished": ended.get("finishedAt"),
        }
        return {name: value for name, value in facts.items() if value}

    def _follow(self) -> None:
        """Read until the container has ended and one more look after that has brought nothing new."""
        with self._output:
            while True:
                ended = self.has_ended
                started = "running" in (self.container.get("state") or {}) or self.terminated is not None
                try:
                    if started or ended:
                        self._read(follow=not ended)
                    if ended:
                        self._keep(self._log.finish())
                        break
                except ClusterError as error:
                    # No log is there of a pod that is gone, or whose container never started.
                    if ended and (error.is_absence or error.status == 400):  # noqa: PLR2004 - Bad Request
                        break
                time.sleep(AGAIN_SECONDS)
        self.is_read = True

    def _read(self, *, follow: bool) -> None:
        self._log.connected()
        path = f"{self._cluster.path(PODS, self.name)}/log"
        wanted: dict[str, object] = {"container": CONTAINER, "timestamps": "true", "sinceTime": self._log.since}
        for data in self._cluster.stream(path, **wanted, **({"follow": "true"} if follow else {})):
            self._keep(self._log.feed(data))

    def _keep(self, lines: Iterator[bytes]) -> None:
        texts = list(lines)
        self._output.write(b"".join(text + b"\n" for text in texts))
        self._output.flush()
        for text in texts:
            self._lines.put(Line(self.node, 0, text))


class Watch:
    """A thread that tells every change of a job's pods, over any number of connections."""

    def __init__(self, cluster: Cluster, kind: str, job: str, tell: Callable[[str, dict[str, Any]], None]) -> None:
        self._cluster = cluster
        self._selector = selector(kind, job)
        self._tell = tell
        self._known: dict[str, dict[str, Any]] = {}
        self._over = False
        self.listed = threading.Event()
        """Set once the pods that there are have been told."""
        threading.Thread(target=self._run, daemon=True).start()

    def end(self) -> None:
        """Tell nothing more."""
        self._over = True

    def _run(self) -> None:
        while not self._over:
            with suppress(ClusterError, ValueError):
                self._follow(self._list())
            time.sleep(AGAIN_SECONDS)

    def _list(self) -> str:
        found = self._cluster.get(self._cluster.path(PODS), labelSelector=self._selector)
        pods = {pod["metadata"]["uid"]: pod for pod in found.get("items", [])}
        for uid in [uid for uid in self._known if uid not in pods]:
            self._take("DELETED", self._known[uid])
        for pod in pods.values():
            self._take("MODIFIED", pod)
        self.listed.set()
        return str(found["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> None:
        """Take in changes until the connection ends or its place in history is forgotten."""
        query = {"labelSelector": self._selector, "resourceVersion": version, "timeoutSeconds": WATCH_SECONDS}
        rest = b""
        for data in self._cluster.stream(self._cluster.path(PODS), watch="true", **query):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if self._over or event["type"] == "ERROR":
                    return
                if event["type"] != "BOOKMARK":
                    self._take(event["type"], event["object"])

    def _take(self, what: str, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        if what == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = pod
        self._tell(what, pod)


def selector(kind: str, job: str) -> str:
    """Return what the pods of a job are found by."""
    return f"{_SELECTORS[kind]}={job}"


def node_of(pod: dict[str, Any]) -> int:
    """Return the number of a pod's node: Master, then Workers; or its index in the Job. -1 for another's pod."""
    metadata = pod["metadata"]
    told = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    role = str(told.get("training.kubeflow.org/replica-type", "")).lower()
    word = str(told.get("training.kubeflow.org/replica-index" if role else "batch.kubernetes.io/job-completion-index"))
    return int(word) + _ROLES.get(role, 0) if word.isdigit() else -1


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def _digest(image_id: str) -> str:
    """Return the digest of `registry/name@sha256:...`, or the image's id where it came from no registry."""
    return image_id.rpartition("@")[2]
