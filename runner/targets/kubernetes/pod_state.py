"""The state of a pod: why it has not started, how it ended and where it ran."""

import math
import re
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from runner.core.text import one_line
from runner.records.schema import NodeExit
from runner.targets.base import SIGNALLED, exit_of
from runner.targets.kubernetes.client import Cluster, ClusterError
from runner.targets.kubernetes.job import CONTAINER, CONTAINERS, JOB_SUFFIX

PULL_SECONDS = 60.0
"""How long image pulls may fail, because the kubelet retries and may succeed."""
_PULLING = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable")
_HOPELESS = ("InvalidImageName", "ErrImageNeverPull")
_REFUSED = re.compile(r"violates PodSecurity| is invalid: ")
_STARTING = ("", "PodInitializing", "ContainerCreating")
_INIT = {"init-pytorch": "waits for the DNS name of node 0", "data": "prepares the data"}
_ROLES = {"master": 0, "worker": 1}
_LONGEST = 400
_MAKERS = {"TrainJob": (("TrainJob", ""), ("JobSet", ""), ("Job", JOB_SUFFIX))}
"""Objects that create a job's pods: kind, and suffix to the job's name. The default is only the job."""


class Reason(NamedTuple):
    """Reason why a pod has not started. The run fails if the reason keeps the same `key` for `seconds`."""

    key: str
    text: str
    seconds: float = math.inf


class PodState:
    """State of a pod, from its API object. It is false if there is no pod yet."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._raw, metadata = raw, raw.get("metadata") or {}
        self._status: dict[str, Any] = raw.get("status") or {}
        self.name, self.uid = str(metadata.get("name")), str(metadata.get("uid"))
        self.trains = container_of(raw)
        self._container = next((one for one in self._containers("container") if one["name"] == self.trains), {})
        state = self._container.get("state") or {}
        self.is_running = "running" in state
        self.terminated: dict[str, Any] = state.get("terminated") or {}
        self.has_ended = bool(self.terminated) or self._status.get("phase") in ("Failed", "Succeeded")
        """Whether no container runs, and none will run again."""
        self.due = _moment(metadata.get("deletionTimestamp"))
        """End of the grace period if the pod was deleted, else None."""
        finished, grace = _moment(self.terminated.get("finishedAt")), metadata.get("deletionGracePeriodSeconds") or 0
        asked = self.due - timedelta(seconds=grace) if self.due else None
        self.deleted = None if asked and finished and finished < asked else asked
        """Time in whole seconds at which the running pod was deleted, else None."""
        self.over = self.deleted or finished

    def __bool__(self) -> bool:
        return bool(self._raw)

    @property
    def reason(self) -> Reason | None:
        """Why the pod has not started. None if the pod runs, has ended, or has no reason yet."""
        if self._status.get("phase") not in (None, "Pending"):
            return None
        for condition in self._status.get("conditions") or []:
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return _reason(condition.get("reason") or "Pending", condition.get("message"))
        of_init = self._containers("initContainer")
        for container in [*of_init, *self._containers("container")]:
            name, state = container["name"], container.get("state") or {}
            if "running" in state and container in of_init:
                return Reason(name, _INIT.get(name, f"runs its init container {name}"))
            held = state.get("waiting") or {}
            if held.get("reason", "") not in _STARTING:
                return _reason(held["reason"], held.get("message"))
        return None

    def exit(self, node: int, namespace: str, *, stopped: bool, is_gone: bool) -> NodeExit:
        """Return how the pod ended. Exit code and signal are None if its container's end is unknown."""
        code, name = exit_of(self.terminated.get("exitCode"), SIGNALLED)
        reason, removed = self.terminated.get("reason"), bool(self.deleted and not stopped)
        words = [self._status.get("reason"), self._status.get("message")]  # e.g. of an eviction
        words += [
            f"its init container {container['name']} exited with {failed}"
            for container in self._containers("initContainer")
            if (failed := ((container.get("state") or {}).get("terminated") or {}).get("exitCode"))
        ]
        if removed:
            words.append("its pod was deleted while it ran")
        elif is_gone and not self.terminated:
            words.append("its pod no longer exists" if self else "its pod was never created")
        elif reason not in (None, "Completed", "Error", "OOMKilled"):
            words += [reason, self.terminated.get("message")]
        why = ": ".join(one_line(word, _LONGEST) for word in words if word) or None
        starved, place = reason == "OOMKilled", self._place(namespace) if self else {}
        return NodeExit(node, code, name, stopped, starved, removed=removed, why=why, place=place)

    def _place(self, namespace: str) -> dict[str, Any]:
        spec = self._raw["spec"]
        container: dict[str, Any] = next((one for one in spec["containers"] if one["name"] == self.trains), {})
        facts = {
            "pod": self.name,
            "namespace": namespace,
            "machine": spec.get("nodeName"),
            "image": container.get("image"),
            # imageID is `registry/name@sha256:...`, without a registry the image's id
            "digest": str(self._container.get("imageID") or "").rpartition("@")[2],
            "limits": (container.get("resources") or {}).get("limits"),
            "finished": self.terminated.get("finishedAt"),
        }
        return {name: value for name, value in facts.items() if value}

    def _containers(self, kind: str) -> list[dict[str, Any]]:
        return self._status.get(f"{kind}Statuses") or []


def node_of(pod: dict[str, Any]) -> int:
    """Return a pod's node number, or -1 if the pod is not a node.

    In a PyTorchJob, it follows from role and replica index. In other jobs, it is the completion index.
    """
    metadata = pod["metadata"]
    said = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    role = str(said.get("training.kubeflow.org/replica-type", "")).lower()
    word = said.get("training.kubeflow.org/replica-index" if role else "batch.kubernetes.io/job-completion-index", "-1")
    return int(word) + _ROLES.get(role, 0)


def container_of(pod: dict[str, Any]) -> str:
    """Return the name of a pod's training container."""
    names = [container["name"] for container in (pod.get("spec") or {}).get("containers") or []]
    return next((name for name in CONTAINERS if name in names), CONTAINER)


def reason_of_job(cluster: Cluster, kind: str, name: str) -> Reason | None:
    """Return why a job has no pods, from the latest warning about the objects that create pods, or None if unknown."""
    warnings = []
    for maker, suffix in _MAKERS.get(kind, ((kind, ""),)):
        selector = f"involvedObject.kind={maker},involvedObject.name={name}{suffix},type=Warning"
        try:
            warnings += cluster.get(cluster.path("events"), fieldSelector=selector)["items"]
        except ClusterError:  # e.g. no permission to read events
            return None
    latest = max(warnings, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "", default=None)
    return _reason(str(latest.get("reason")), latest.get("message")) if latest else None


def _reason(reason: str, message: str | None) -> Reason:
    words = one_line(message or "", _LONGEST).partition(" preemption: ")[0]
    text = f"{reason}: {words}" if words else reason
    if reason in _PULLING:
        return Reason("pulling", text, PULL_SECONDS)
    return Reason(reason, text, 0.0 if reason in _HOPELESS or _REFUSED.search(words) else math.inf)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
