"""What a killed runner has left in a cluster: the rest of its pods' logs is kept, then its objects are deleted.

The names of objects follow from a run's record, which may come from a stranger; so an object is only deleted if its own
annotation has the run's id.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from runner.core import clock
from runner.records.folder import RunFolder
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError
from runner.targets.kubernetes.job import RUN_ID
from runner.targets.kubernetes.pod_state import container_of, node_of
from runner.targets.kubernetes.pod_watch import selector

GONE_SECONDS = 60.0
"""How long pods may take to go; their own grace is half of it."""
_AGAIN_SECONDS = 0.5
_FORBIDDEN = 403


def end_remains(cluster: Cluster, kinds: Sequence[str], name: str, folder: RunFolder, nodes: int) -> None:
    """Keep the logs of a run's pods, delete its objects, and wait until its pods have gone.

    Args:
        cluster: where they are.
        kinds: of the objects, the last of which is the job.
        name: which all of them have.
        folder: the run's folder.
        nodes: their number.

    Raises OSError if the cluster does not answer or refuses it, or if the pods do not go.
    """
    job = _find(cluster, kinds[-1], name)
    is_own = job is not None and _is_of(job, folder.path.name)
    if job is not None and not is_own:
        return
    if is_own:
        for pod in _pods(cluster, kinds[-1], name):
            if 0 <= node_of(pod) < nodes:
                _keep_log(cluster, pod, folder)
    for kind in reversed(kinds):
        _delete(cluster, kind, name, folder.path.name, is_own=is_own)
    until = clock.monotonic() + GONE_SECONDS
    while is_own and _pods(cluster, kinds[-1], name):
        if clock.monotonic() > until:
            raise ClusterError(0, f"the pods of {name} do not go: kubectl delete -n {cluster.namespace} pod ...")
        clock.sleep(_AGAIN_SECONDS)


def _find(cluster: Cluster, kind: str, name: str) -> dict[str, Any] | None:
    try:
        return cluster.get(cluster.path(kind, name))
    except ClusterError as error:
        if error.is_absence:
            return None
        raise


def _is_of(found: dict[str, Any], run_id: str) -> bool:
    return bool((found["metadata"].get("annotations") or {}).get(RUN_ID) == run_id)


def _pods(cluster: Cluster, kind: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get(cluster.path(PODS), labelSelector=selector(kind, name)).get("items", [])
    return found


def _delete(cluster: Cluster, kind: str, name: str, run_id: str, *, is_own: bool) -> None:
    options: dict[str, Any] = {}
    try:
        found = _find(cluster, kind, name)
        if found is None or not _is_of(found, run_id):
            return
        options = {"preconditions": {"uid": found["metadata"]["uid"]}}
    except ClusterError as error:
        if error.status != _FORBIDDEN or not is_own:  # who may make services need not be allowed to read them
            raise
    cluster.delete(cluster.path(kind, name), propagationPolicy="Background", **options)


def _keep_log(cluster: Cluster, pod: dict[str, Any], folder: RunFolder) -> None:
    """Read a pod's whole log, and keep it if it is longer than what the runner lived to write."""
    path = f"{cluster.path(PODS, pod['metadata']['name'])}/log"
    with suppress(ClusterError):  # there is no log of a container that never started
        folder.keep_longer_agent(node_of(pod), cluster.stream(path, container=container_of(pod)))
