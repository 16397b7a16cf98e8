"""Jobs that end badly leave a record that says so, within their time, what was printed, and nothing in the cluster."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import Run, Start, get, kubectl, things
from tests.support.launches import interrupted, until
from tests.support.projects import Project

pytestmark = pytest.mark.cluster


def pods(namespace: str) -> list[dict[str, Any]]:
    return sorted(get("pods", "-n", namespace), key=lambda pod: str(pod["metadata"]["name"]))


def printed(folder: Path, word: bytes, nodes: int = 2) -> Callable[[], bool]:
    """Whether every node has printed a word."""
    logs = [folder / "raw" / f"node{node}-agent.log" for node in range(nodes)]
    return lambda: all(path.exists() and word in path.read_bytes() for path in logs)


def define(project: Project, name: str, seconds: int) -> None:
    project.define(
        name=name,
        program="odd.slow",
        matrix={"layout": ["2x1"]},
        baseline={"layout": "2x1"},
        timeout_seconds=seconds,
    )


@pytest.mark.parametrize("job", ["pytorchjob", "indexed"])
def test_a_worker_that_exits_is_named_with_its_code(run: Run, job: str) -> None:
    done, record = run("odd-exits", "--layout", "2x1", "--set", "code=3", "--with", f"job={job}")
    assert done.code == 1
    assert record["status"] == "failed"
    assert record["reason"] == "rank 1 (node 1) exited with 3"
    assert record["ranks"][0]["events_seen"] > 0


def test_a_worker_that_runs_out_of_memory_says_so(run: Run) -> None:
    done, record = run("odd-memory", "--layout", "2x1", "--with", "memory=1500Mi")
    assert done.code == 1
    assert record["status"] == "failed"
    assert any(one.get("out_of_memory") for one in record["outcome"]["exits"])
    assert "SIGKILL: the container ran out of memory" in record["reason"]


def test_a_rank_that_leaves_the_others_is_ended_with_the_time(run: Run) -> None:
    # torchrun holds its pod until the other nodes have ended too.
    done, record = run("odd-leaves", "--layout", "2x1")
    assert done.code == 1
    assert record["status"] == "timed_out"
    assert record["ranks"][1]["events_seen"] > 0


@pytest.mark.usefixtures("loaded")
def test_a_master_that_ends_first_takes_its_workers_with_it(project: Project, namespace: str) -> None:
    words = ("run", "odd-slow", "--layout", "2x1", "--set", "seconds=100", "--repeat", "1", "--device", "cpu")
    job = yaml.safe_load(project.runner(*words, "--on", "kubernetes", "--dry-run").stdout)
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["command"] = ["sh", "-c", f"{shlex.join(container['command'])} & sleep 20"]
    (project.root / "first.yaml").write_text(yaml.safe_dump(job))
    kubectl("create", "-n", namespace, "-f", "first.yaml", cwd=project.root)
    done = project.runner("collect", "first.yaml", "--with", f"namespace={namespace}", "--results", "first", within=200)
    kubectl("delete", "-n", namespace, "-f", "first.yaml", "--wait=false", cwd=project.root)
    assert done.code == 1, done.snapshot
    (path,) = (project.root / "first").glob("*/*/run.json")
    record = project.record(path.parent)
    assert record["outcome"]["exits"][0]["code"] == 0
    assert record["status"] == "failed"
    assert "node 1" in record["reason"]
    assert "it was ended because node 0 had ended" in record["reason"]
    assert record["ranks"][1]["events_seen"] > 0


def test_a_program_that_never_stops_printing_is_ended_with_the_time(project: Project, run: Run) -> None:
    project.define(
        name="odd-endless",
        program="odd.says",
        matrix={"layout": ["2x1"]},
        baseline={"layout": "2x1"},
        timeout_seconds=20,
    )
    began = time.monotonic()
    done, record = run("odd-endless", "--layout", "2x1", "--set", "seconds=300")
    assert time.monotonic() - began < 90
    assert done.code == 1
    assert (record["status"], record["reason"]) == ("timed_out", "not done after timeout_seconds: 20")


def test_an_image_that_cannot_be_pulled_ends_the_run_before_its_time(run: Run) -> None:
    began = time.monotonic()
    done, record = run("odd-slow", "--layout", "2x1", "--with", "image=nowhere.invalid/kit:0")
    assert time.monotonic() - began < 110
    assert done.code == 1
    assert record["status"] == "failed"
    assert "cannot start: " in record["reason"]
    assert "nowhere.invalid/kit:0" in record["reason"]
    assert "node 0 " in done.stderr


def test_an_image_s_name_that_is_none_is_not_waited_for(run: Run) -> None:
    began = time.monotonic()
    done, record = run("odd-slow", "--layout", "2x1", "--with", "image=UPPER//case")
    assert time.monotonic() - began < 40
    assert done.code == 1
    assert "InvalidImageName" in record["reason"]


def test_more_gpus_than_there_are_is_pending_and_says_why(project: Project, run: Run) -> None:
    define(project, "odd-greedy", 15)
    done, record = run("odd-greedy", "--layout", "2x9", device="cuda")
    assert done.code == 1
    assert record["status"] == "timed_out"
    assert "Insufficient nvidia.com/gpu" in record["reason"]
    assert "node 1 Unschedulable: 0/1 nodes are available" in done.stderr


def test_a_worker_that_never_starts_is_named_when_the_time_is_up(project: Project, namespace: str, run: Run) -> None:
    # Room for the Master only.
    define(project, "odd-late", 25)
    kubectl("create", "quota", "small", "-n", namespace, "--hard=pods=1")
    done, record = run("odd-late", "--layout", "2x1")
    assert done.code == 1
    assert record["status"] == "timed_out"
    assert "node 1: " in record["reason"]
    assert "exceeded quota" in record["reason"]


def test_an_indexed_job_can_be_interrupted_while_its_pods_come(
    project: Project, namespace: str, started: Start
) -> None:
    process, folder = started("odd-slow", "--layout", "2x1", "--set", "seconds=100", "--with", "job=indexed")
    until(lambda: len(pods(namespace)) == 2, 60)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=90)
    assert process.returncode == 130
    assert project.record(folder)["status"] == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_collected_and_deleted(
    project: Project, namespace: str, started: Start, number: signal.Signals
) -> None:
    process, folder = started("odd-slow", "--layout", "2x1", "--set", "seconds=100")
    until(printed(folder, b"epoch_stop"), 60)
    record = interrupted(project, process, folder, number)
    assert record["epochs"]
    assert all(one["stopped"] for one in record["outcome"]["exits"])
    assert things(namespace) == []


def test_ctrl_c_before_there_are_pods_leaves_nothing(project: Project, started: Start) -> None:
    process, folder = started("odd-slow", "--layout", "2x1", "--set", "seconds=100")
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=90)
    assert process.returncode == 130
    assert project.record(folder)["status"] == "interrupted"


def test_a_runner_that_is_killed_leaves_nothing(project: Project, namespace: str, started: Start) -> None:
    process, folder = started("odd-slow", "--layout", "2x1", "--set", "seconds=100", "--with", "job=indexed")
    until(printed(folder, b"epoch_stop"), 60)
    process.kill()
    process.communicate()
    until(lambda: things(namespace) == [], 90)
    collected = project.runner("collect", folder)
    assert collected.stdout.endswith(
        "the runner did not record how the run ended: it was killed, or it could not write\n"
    )
    assert project.record(folder)["epochs"]


@pytest.mark.parametrize("job", ["pytorchjob", "indexed"])
def test_a_pod_that_somebody_deletes_ends_the_run(project: Project, namespace: str, started: Start, job: str) -> None:
    process, folder = started("odd-slow", "--layout", "2x1", "--set", "seconds=100", "--with", f"job={job}")
    until(printed(folder, b"epoch_stop"), 60)
    name = pods(namespace)[1]["metadata"]["name"]
    kubectl("delete", "pod", "-n", namespace, name, "--grace-period=1", "--wait=false")
    process.communicate(timeout=120)
    assert process.returncode == 1
    record = project.record(folder)
    assert record["status"] in ("failed", "killed")
    assert "node 1" in record["reason"]
    assert "its pod was deleted while it ran" in record["reason"], record["reason"]
    assert record["ranks"][0]["events_seen"] > 0


def test_a_job_that_somebody_deletes_ends_the_run(project: Project, namespace: str, started: Start) -> None:
    process, folder = started("odd-slow", "--layout", "2x1", "--set", "seconds=100")
    until(printed(folder, b"epoch_stop"), 60)
    kubectl("delete", "pytorchjobs", "-n", namespace, "--all", "--wait=false")
    process.communicate(timeout=150)
    assert process.returncode == 1
    record = project.record(folder)
    assert record["status"] in ("failed", "killed")
    assert "deleted" in record["reason"]
