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
PULLING = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable")
"""The image cannot be pulled; the kubelet tries again, and may succeed."""
_HOPELESS = ("InvalidImageName", "ErrImageNeverPull")
_REFUSED = re.compile(r"violates PodSecurity| is invalid: ")
_INIT = {"init-pytorch": "waits for the name of node 0", "data": "prepares the data"}
_LONGEST_REASON = 300
_MAKERS = {"TrainJob": (("TrainJob", ""), ("JobSet", ""), ("Job", JOB_SUFFIX))}
"""The kinds that make a job's pods, with what the names of theirs have at the end; by default the job itself does."""


class PodState:
    """A pod as the API shows it; empty before there is one."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.raw = state

    def __bool__(self) -> bool:
        return bool(self.raw)

    @property
    def name(self) -> str:
        """Its name in the cluster."""
        return str(self.raw["metadata"]["name"])

    @property
    def uid(self) -> str:
        """What distinguishes it from a later pod of the same name; empty before there is one."""
        return str(self.raw["metadata"]["uid"]) if self.raw else ""

    @property
    def status(self) -> dict[str, Any]:
        """Its status; empty if it has none yet."""
        return self.raw.get("status") or {}

    @property
    def container(self) -> dict[str, Any]:
        """The status of the container that trains."""
        name = container_of(self.raw)
        return next((status for status in self.status.get("containerStatuses") or [] if status.get("name") == name), {})

    @property
    def is_running(self) -> bool:
        """Whether the container runs."""
        return "running" in (self.container.get("state") or {})

    @property
    def terminated(self) -> dict[str, Any] | None:
        """How the container ended, if it has."""
        return (self.container.get("state") or {}).get("terminated")

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more or ever will."""
        return self.terminated is not None or self.status.get("phase") in ("Failed", "Succeeded")

    @property
    def finished(self) -> datetime | None:
        """When the container ended, to the second."""
        return _moment((self.terminated or {}).get("finishedAt"))

    @property
    def is_deleted(self) -> bool:
        """Whether somebody asked for its end, also if it had ended before."""
        return bool((self.raw.get("metadata") or {}).get("deletionTimestamp"))

    @property
    def deleted(self) -> datetime | None:
        """When somebody asked for the end of a pod that still ran, to the second."""
        metadata = self.raw.get("metadata") or {}
        due, finished = _moment(metadata.get("deletionTimestamp")), self.finished
        if due is None:
            return None
        asked = due - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        return asked if finished is None or finished >= asked else None

    def exit(self, node: int, namespace: str, *, stopped: bool, is_gone: bool) -> NodeExit:
        """Translate the kubelet's words; a pod that is gone or never ran has neither a code nor a signal."""
        ended = self.terminated or {}
        code, name = exit_of(ended.get("exitCode"), SIGNALLED)
        return NodeExit(
            node,
            code,
            name,
            stopped=stopped,
            out_of_memory=ended.get("reason") == "OOMKilled",
            removed=bool(self.deleted and not stopped),
            why=self._why(ended, stopped=stopped, is_gone=is_gone),
            place=self._place(ended, namespace),
        )

    def _why(self, ended: dict[str, Any], *, stopped: bool, is_gone: bool) -> str | None:
        """Return what else is known of a bad end."""
        words = [self.status.get("reason"), self.status.get("message")]  # for example of an eviction
        words += [
            f"its init container {container['name']} exited with {code}"
            for container in self.status.get("initContainerStatuses") or []
            if (code := ((container.get("state") or {}).get("terminated") or {}).get("exitCode"))
        ]
        if self.deleted and not stopped:
            words.append("its pod was deleted while it ran")
        elif is_gone and not ended:
            words.append("its pod is gone" if self else "it has no pod")
        elif ended.get("reason") not in (None, "Completed", "Error", "OOMKilled"):
            words += [ended.get("reason"), ended.get("message")]
        return ": ".join(one_line(word, _LONGEST) for word in words if word) or None

    def _place(self, ended: dict[str, Any], namespace: str) -> dict[str, Any]:
        """Name the pod, its machine, its image and what it may use."""
        if not self:
            return {}
        spec = self.raw["spec"]
        name = container_of(self.raw)
        trains: dict[str, Any] = next((container for container in spec["containers"] if container["name"] == name), {})
        facts = {
            "pod": self.name,
            "namespace": namespace,
            "machine": spec.get("nodeName"),
            "image": trains.get("image"),
            # of `registry/name@sha256:...`, or the image's id if it came from no registry
            "digest": str(self.container.get("imageID") or "").rpartition("@")[2],
            "limits": (trains.get("resources") or {}).get("limits"),
            "started": ended.get("startedAt"),
            "finished": ended.get("finishedAt"),
        }
        return {name: value for name, value in facts.items() if value}


def node_of(pod: dict[str, Any]) -> int:
    """Return the number of a pod's node: Master, then Workers; or its index in the Job. -1 for another's pod."""
    metadata = pod["metadata"]
    said = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    role = str(said.get("training.kubeflow.org/replica-type", "")).lower()
    word = str(said.get("training.kubeflow.org/replica-index" if role else "batch.kubernetes.io/job-completion-index"))
    return int(word) + _ROLES.get(role, 0) if word.isdecimal() and len(word) < 10 else -1  # 32 bits


def container_of(pod: dict[str, Any]) -> str:
    """Return the name of the container that trains."""
    names = [container.get("name") for container in (pod.get("spec") or {}).get("containers") or []]
    return next((name for name in CONTAINERS if name in names), CONTAINER)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


class Reason(NamedTuple):
    """Why, in one line, and whether it will never start; `key` is the same as long as the reason is."""

    key: str
    text: str
    is_hopeless: bool = False


def reason_of_pod(pod: dict[str, Any]) -> Reason | None:
    """Return what keeps a pod from running; None if it runs, has ended, or was made a moment ago."""
    status = pod.get("status") or {}
    if status.get("phase") not in (None, "Pending"):
        return None
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _reason(str(condition.get("reason") or "Pending"), condition.get("message"))
    for container in status.get("initContainerStatuses") or []:
        state = container.get("state") or {}
        if "running" in state:
            name = container["name"]
            return Reason(name, _INIT.get(name, f"runs its init container {name}"))
        if reason := _of_state(state):
            return reason
    for container in status.get("containerStatuses") or []:
        if reason := _of_state(container.get("state") or {}):
            return reason
    return None


def reason_of_job(cluster: Cluster, kind: str, name: str) -> Reason | None:
    """Return what keeps a job from having its pods: the latest warning of those who make them; None without one."""
    warnings = []
    for maker, suffix in _MAKERS.get(kind, ((kind, ""),)):
        selector = f"involvedObject.kind={maker},involvedObject.name={name}{suffix},type=Warning"
        try:
            warnings += cluster.get(cluster.path("events"), fieldSelector=selector).get("items", [])
        except ClusterError:  # without the right to read events there is nothing to say
            return None
    if not warnings:
        return None
    latest = max(warnings, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    return _reason(str(latest.get("reason")), latest.get("message"))


def _of_state(state: dict[str, Any]) -> Reason | None:
    held = state.get("waiting") or {}
    reason = str(held.get("reason") or "")
    if reason in ("", "PodInitializing", "ContainerCreating"):
        return None
    return _reason(reason, held.get("message"))


def _reason(reason: str, message: object) -> Reason:
    words = one_line(message or "").partition(" preemption: ")[0][:_LONGEST_REASON]
    key = "pulling" if reason in PULLING else reason
    text = f"{reason}: {words}" if words else reason
    return Reason(key, text, reason in _HOPELESS or bool(_REFUSED.search(words)))
