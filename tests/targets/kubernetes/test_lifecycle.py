"""A job of ours that is stopped while its objects are created."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from runner.records.folder import begin
from runner.targets.kubernetes.client import Cluster
from runner.targets.kubernetes.lifecycle import JobHandle
from tests.support.records import Make


class Slow(Cluster):
    """A cluster that takes its time to create what is asked for; no pods ever start."""

    def __init__(self) -> None:
        self.namespace = "default"
        self.there: set[str] = set()
        self.asked = threading.Event()

    def post(self, path: str, body: dict[str, Any], **query: object) -> dict[str, Any]:
        del query
        self.asked.set()
        time.sleep(0.3)
        self.there.add(f"{path}/{body['metadata']['name']}")
        return {}

    def delete(self, path: str, **options: object) -> None:
        del options
        self.there.discard(path)

    def get(self, path: str, **query: object) -> dict[str, Any]:
        del path, query
        return {"items": []}


DOCUMENTS = [{"kind": kind, "metadata": {"name": "job"}} for kind in ("Service", "Job")]


def test_ctrl_c_in_the_middle_of_the_start_leaves_no_object(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Slow()
    handle = JobHandle(cluster, DOCUMENTS, begin(tmp_path, make.launch(), "{}", ""), nodes=0)
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        cluster.asked.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(iter(handle.lines()))
    monkeypatch.undo()
    handle.stop()
    time.sleep(0.5)
    assert cluster.there == set()
