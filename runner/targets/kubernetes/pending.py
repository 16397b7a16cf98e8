"""Why a node has not started: what the scheduler, the kubelet and the controllers report."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from runner.core.text import one_line
from runner.targets.kubernetes.client import Cluster, ClusterError
from runner.targets.kubernetes.job import JOB_SUFFIX

PULLING = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable")
"""The image cannot be pulled; the kubelet tries again, and may succeed."""
_HOPELESS = ("InvalidImageName", "ErrImageNeverPull")
_REFUSED = re.compile(r"violates PodSecurity| is invalid: ")
_INIT = {"init-pytorch": "waits for the name of node 0", "data": "prepares the data"}
_LONGEST = 300
_MAKERS = {"TrainJob": (("TrainJob", ""), ("JobSet", ""), ("Job", JOB_SUFFIX))}
"""The kinds that make a job's pods, with what the names of theirs have at the end; by default the job itself does."""


class Reason(NamedTuple):
    """Why, in one line, and whether it will never start; `key` is the same as long as the reason is."""

    key: str
    text: str
    is_hopeless: bool = False


def of_pod(pod: dict[str, Any]) -> Reason | None:
    """Return what keeps a pod from running; None if it runs, has ended, or was made a moment ago."""
    status = pod.get("status") or {}
    if status.get("phase") not in (None, "Pending"):
        return None
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _reason(str(condition.get("reason") or "Pending"), condition.get("message"))
    for one in status.get("initContainerStatuses") or []:
        state = one.get("state") or {}
        if "running" in state:
            return Reason(one["name"], _INIT.get(one["name"], one_line(f"runs its init container {one['name']}")))
        if reason := _of_state(state):
            return reason
    for one in status.get("containerStatuses") or []:
        if reason := _of_state(one.get("state") or {}):
            return reason
    return None


def of_job(cluster: Cluster, kind: str, name: str) -> Reason | None:
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
    words = one_line(message or "").partition(" preemption: ")[0][:_LONGEST]
    key = "pulling" if reason in PULLING else reason
    text = one_line(f"{reason}: {words}" if words else reason)
    return Reason(key, text, reason in _HOPELESS or bool(_REFUSED.search(words)))
