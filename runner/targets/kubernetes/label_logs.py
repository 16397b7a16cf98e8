"""The output of the pods with some labels, whoever created them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError
from runner.targets.outputs import MOST, Output


def outputs(labels: str, namespace: str, context: str) -> list[Output]:
    """Return the output of each container of each pod; RequestError if there is none, or if the cluster refuses.

    Args:
        labels: a label selector, for example `app=train,role!=web`.
        namespace: where the pods are; empty for that of the kubeconfig.
        context: a context of the kubeconfig; empty for the current one.
    """
    cluster = Cluster(namespace, context)
    try:
        pods = cluster.get(cluster.path(PODS), labelSelector=labels).get("items") or []
    except ClusterError as error:
        raise RequestError(one_line(f"pods:{labels}: {error}")) from None
    found = [one for pod in sorted(pods, key=_name) for one in _containers(cluster, pod)]
    if not found:
        msg = f"pods:{labels}: no such pod has started in namespace {cluster.namespace} of {cluster.host}"
        raise RequestError(one_line(msg))
    if len(found) > MOST:
        raise RequestError(
            one_line(f"pods:{labels}: {len(found):,} containers; {MOST} are the most that are read together")
        )
    return found


def _name(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def _containers(cluster: Cluster, pod: dict[str, Any]) -> Iterator[Output]:
    """Yield the containers of a pod that have started."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        state = status.get("state") or {}
        if "running" not in state and "terminated" not in state:
            continue
        name = str(status["name"])
        code = (state.get("terminated") or {}).get("exitCode")
        yield Output(f"[pod/{_name(pod)}/{name}] ", _log(cluster, _name(pod), name), code)


def _log(cluster: Cluster, pod: str, container: str) -> Iterator[bytes]:
    try:
        yield from cluster.stream(f"{cluster.path(PODS, pod)}/log", container=container, timestamps="true")
    except ClusterError as error:
        raise RequestError(one_line(f"the log of pod {pod} cannot be read: {error}")) from None
