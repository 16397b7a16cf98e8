"""The changes of a job's pods, over any number of connections."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from runner.core import clock
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError

AGAIN_SECONDS = 0.3
WATCH_SECONDS = 300
_SELECTORS = {
    "PyTorchJob": "training.kubeflow.org/job-name",
    "TrainJob": "jobset.sigs.k8s.io/jobset-name",  # the JobSet has the name of its TrainJob
    "Job": "job-name",
}


class PodWatch:
    """A thread that passes every change of a job's pods on, as a kind of change and the pod."""

    def __init__(self, cluster: Cluster, kind: str, job: str, take: Callable[[str, dict[str, Any]], None]) -> None:
        self._cluster = cluster
        self._selector = selector(kind, job)
        self._take = take
        self._known: dict[str, dict[str, Any]] = {}
        self._over = False
        self.listed = threading.Event()
        """Set once the pods that exist have been passed on."""
        threading.Thread(target=self._run, daemon=True).start()

    def end(self) -> None:
        """Pass nothing more on."""
        self._over = True

    def _run(self) -> None:
        while not self._over:
            with suppress(ClusterError, ValueError, LookupError, TypeError):  # a reply that a proxy broke, too
                self._follow(self._list())
            clock.sleep(AGAIN_SECONDS)

    def _list(self) -> str:
        found = self._cluster.get(self._cluster.path(PODS), labelSelector=self._selector)
        pods = {pod["metadata"]["uid"]: pod for pod in found.get("items", [])}
        for uid in [uid for uid in self._known if uid not in pods]:
            self._pass_on("DELETED", self._known[uid])
        for pod in pods.values():
            self._pass_on("MODIFIED", pod)
        self.listed.set()
        return str(found["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> None:
        """Pass changes on until the connection ends or its place in history is forgotten."""
        query = {"labelSelector": self._selector, "resourceVersion": version, "timeoutSeconds": WATCH_SECONDS}
        rest = b""
        for data in self._cluster.stream(self._cluster.path(PODS), watch="true", **query):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if self._over or event["type"] == "ERROR":
                    return
                if event["type"] != "BOOKMARK":
                    self._pass_on(event["type"], event["object"])

    def _pass_on(self, what: str, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        if what == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = pod
        self._take(what, pod)


def selector(kind: str, job: str) -> str:
    """Return what the pods of a job are found by."""
    return f"{_SELECTORS[kind]}={job}"
