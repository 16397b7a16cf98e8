"""What a cluster says of one pod: why it has not started, how far it is, how it ended, and where it ran."""

import re
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from runner.core.text import one_line
from runner.records.schema import NodeExit
from runner.targets.base import SIGNALLED, exit_of
from runner.targets.kubernetes.client import Cluster, ClusterError
from runner.targets.kubernetes.job import JOB_SUFFIX
from runner.targets.kubernetes.pod_spec import CONTAINER, CONTAINERS

_ROLES = {"master": 0, "worker": 1}
_LONGEST = 500
_PULLING = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable")
"""The image cannot be pulled; the kubelet tries again, and may succeed."""
_HOPELESS = ("InvalidImageName", "ErrImageNeverPull")
_REFUSED = re.compile(r"violates PodSecurity| is invalid: ")
_STARTING = ("", "PodInitializing", "ContainerCreating")
_INIT = {"init-pytorch": "waits for the name of node 0", "data": "prepares the data"}
_LONGEST_REASON = 300
_MAKERS = {"TrainJob": (("TrainJob", ""), ("JobSet", ""), ("Job", JOB_SUFFIX))}
"""The kinds that make a job's pods, with what the names of theirs have at the end; by default the job itself does."""


class PodState:
    """A pod as the API shows it; empty before there is one."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        metadata = raw.get("metadata") or {}
        self.name, self.uid = str(metadata.get("name")), str(metadata.get("uid"))
        self.trains = container_of(raw)
        """The container that trains."""
        self.status: dict[str, Any] = raw.get("status") or {}
        statuses = {container["name"]: container for container in self.status.get("containerStatuses") or []}
        self.container: dict[str, Any] = statuses.get(self.trains, {})
        state = self.container.get("state") or {}
        self.is_running = "running" in state
        self.terminated: dict[str, Any] = state.get("terminated") or {}
        self.has_ended = bool(self.terminated) or self.status.get("phase") in ("Failed", "Succeeded")
        """Whether nothing of it runs any more or ever will."""
        self.finished = _moment(self.terminated.get("finishedAt"))
        self.due = _moment(metadata.get("deletionTimestamp"))
        """When it has to be gone, if somebody asked for its end, also if it had ended before."""
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        asked = self.due - grace if self.due else None
        self.deleted = None if asked and self.finished and self.finished < asked else asked
        """When somebody asked for the end of a pod that still ran, to the second."""

    def __bool__(self) -> bool:
        return bool(self.raw)

    def exit(self, node: int, namespace: str, *, stopped: bool, is_gone: bool) -> NodeExit:
        """Translate the kubelet's words; a pod that is gone or never ran has neither a code nor a signal."""
        code, name = exit_of(self.terminated.get("exitCode"), SIGNALLED)
        return NodeExit(
            node,
            code,
            name,
            stopped=stopped,
            out_of_memory=self.terminated.get("reason") == "OOMKilled",
            removed=bool(self.deleted and not stopped),
            why=self._why(stopped=stopped, is_gone=is_gone),
            place=self._place(namespace) if self else {},
        )

    def _why(self, *, stopped: bool, is_gone: bool) -> str | None:
        """Return what else is known of a bad end."""
        words = [self.status.get("reason"), self.status.get("message")]  # for example of an eviction
        words += [
            f"its init container {container['name']} exited with {code}"
            for container in self.status.get("initContainerStatuses") or []
            if (code := ((container.get("state") or {}).get("terminated") or {}).get("exitCode"))
        ]
        if self.deleted and not stopped:
            words.append("its pod was deleted while it ran")
        elif is_gone and not self.terminated:
            words.append("its pod is gone" if self else "it has no pod")
        elif self.terminated.get("reason") not in (None, "Completed", "Error", "OOMKilled"):
            words += [self.terminated["reason"], self.terminated.get("message")]
        return ": ".join(one_line(word, _LONGEST) for word in words if word) or None

    def _place(self, namespace: str) -> dict[str, Any]:
        """Name the pod, its machine, its image and what it may use."""
        spec = self.raw["spec"]
        container: dict[str, Any] = next((one for one in spec["containers"] if one["name"] == self.trains), {})
        facts = {
            "pod": self.name,
            "namespace": namespace,
            "machine": spec.get("nodeName"),
            "image": container.get("image"),
            # of `registry/name@sha256:...`, or the image's id if it came from no registry
            "digest": str(self.container.get("imageID") or "").rpartition("@")[2],
            "limits": (container.get("resources") or {}).get("limits"),
            "started": self.terminated.get("startedAt"),
            "finished": self.terminated.get("finishedAt"),
        }
        return {name: value for name, value in facts.items() if value}


def node_of(pod: dict[str, Any]) -> int:
    """Return the number of a pod's node: Master, then Workers; or its index in the Job. -1 for another's pod."""
    metadata = pod["metadata"]
    said = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    role = str(said.get("training.kubeflow.org/replica-type", "")).lower()
    word = said.get("training.kubeflow.org/replica-index" if role else "batch.kubernetes.io/job-completion-index", "-1")
    return int(word) + _ROLES.get(role, 0)


def container_of(pod: dict[str, Any]) -> str:
    """Return the name of the container that trains."""
    names = [container["name"] for container in (pod.get("spec") or {}).get("containers") or []]
    return next((name for name in CONTAINERS if name in names), CONTAINER)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


class Reason(NamedTuple):
    """Why, in one line, and whether it will never start; `key` is the same as long as the reason is."""

    key: str
    text: str
    is_hopeless: bool = False


def reason_of_pod(pod: PodState) -> Reason | None:
    """Return what keeps a pod from running; None if it runs, has ended, or was made a moment ago."""
    if pod.status.get("phase") not in (None, "Pending"):
        return None
    for condition in pod.status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return _reason(condition.get("reason") or "Pending", condition.get("message"))
    of_init = pod.status.get("initContainerStatuses") or []
    for container in [*of_init, *(pod.status.get("containerStatuses") or [])]:
        name, state = container["name"], container.get("state") or {}
        if "running" in state and container in of_init:
            return Reason(name, _INIT.get(name, f"runs its init container {name}"))
        held = state.get("waiting") or {}
        if held.get("reason", "") not in _STARTING:
            return _reason(held["reason"], held.get("message"))
    return None


def reason_of_job(cluster: Cluster, kind: str, name: str) -> Reason | None:
    """Return what keeps a job from having its pods: the latest warning of those who make them; None without one."""
    warnings = []
    for maker, suffix in _MAKERS.get(kind, ((kind, ""),)):
        selector = f"involvedObject.kind={maker},involvedObject.name={name}{suffix},type=Warning"
        try:
            warnings += cluster.get(cluster.path("events"), fieldSelector=selector)["items"]
        except ClusterError:  # without the right to read events there is nothing to say
            return None
    if not warnings:
        return None
    latest = max(warnings, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    return _reason(str(latest.get("reason")), latest.get("message"))


def _reason(reason: str, message: str | None) -> Reason:
    words = one_line(message or "").partition(" preemption: ")[0][:_LONGEST_REASON]
    text = f"{reason}: {words}" if words else reason
    return Reason(
        "pulling" if reason in _PULLING else reason, text, reason in _HOPELESS or bool(_REFUSED.search(words))
    )
