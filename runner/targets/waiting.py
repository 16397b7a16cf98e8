"""Why a node has not begun: what the scheduler, the kubelet and the controllers say while one waits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.cluster import ClusterError
from runner.errors import one_line

if TYPE_CHECKING:
    from runner.cluster import Cluster

PULLING = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable")
"""The image cannot be fetched; it is tried again, and may go well the next time."""
_HOPELESS = ("InvalidImageName", "ErrImageNeverPull")
_REFUSED = re.compile(r"violates PodSecurity| is invalid: ")
_INIT = {"init-pytorch": "waits for the name of node 0", "data": "fetches the data"}
_LONGEST = 300


class Reason(NamedTuple):
    """Why, in a line, and whether waiting is in vain; `key` is the same while the reason is."""

    key: str
    text: str
    is_hopeless: bool = False


def of_pod(pod: dict[str, Any]) -> Reason | None:
    """Return what keeps a pod from running; None where it runs, has ended, or has only just come."""
    status = pod.get("status") or {}
    if status.get("phase") not in (None, "Pending"):
        return None
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _reason(str(condition.get("reason") or "Pending"), condition.get("message"))
    for one in status.get("initContainerStatuses") or []:
        state = one.get("state") or {}
        if "running" in state:
            return Reason(one["name"], _INIT.get(one["name"], f"runs its init container {one['name']}"))
        if waiting := _waiting(state):
            return waiting
    for one in status.get("containerStatuses") or []:
        if waiting := _waiting(one.get("state") or {}):
            return waiting
    return None


def of_job(cluster: Cluster, kind: str, name: str) -> Reason | None:
    """Return what keeps a job from having its pods, as its latest warning says; None where nothing is said."""
    try:
        found = cluster.get(cluster.path("events"), fieldSelector=f"involvedObject.name={name},type=Warning")
    except ClusterError:  # who may not read events goes without
        return None
    warnings = [event for event in found.get("items", []) if event["involvedObject"].get("kind") == kind]
    if not warnings:
        return None
    latest = max(warnings, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    return _reason(str(latest.get("reason")), latest.get("message"))


def _waiting(state: dict[str, Any]) -> Reason | None:
    waiting = state.get("waiting") or {}
    reason = str(waiting.get("reason") or "")
    if reason in ("", "PodInitializing", "ContainerCreating"):
        return None
    return _reason(reason, waiting.get("message"))


def _reason(reason: str, message: object) -> Reason:
    words = one_line(message or "").partition(" preemption: ")[0][:_LONGEST]
    key = "pulling" if reason in PULLING else reason
    text = f"{reason}: {words}" if words else reason
    return Reason(key, text, reason in _HOPELESS or bool(_REFUSED.search(words)))
