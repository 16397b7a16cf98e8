"""Jobs that a cluster does not start, and deletions during a run; tests/contract has other ends."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.cluster.conftest import Run, Start
from tests.support.cluster import kubectl, pods
from tests.support.launches import until
from tests.support.odd import define
from tests.support.patience import patient
from tests.support.projects import Project

pytestmark = pytest.mark.cluster


def have_begun(logs: list[Path]) -> bool:
    return all(path.exists() and b"epoch_stop" in path.read_bytes() for path in logs)


@pytest.mark.usefixtures("loaded")
def test_a_master_that_ends_first_takes_its_workers_with_it(project: Project, namespace: str) -> None:
    words = ("run", "odd-slow", "--layout", "2x1", "--set", "seconds=2000", "--repeat", "1", "--device", "cpu")
    job = yaml.safe_load(project.runner(*words, "--on", "kubernetes", "--dry-run").stdout)
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    waits = "until [ -e /tmp/end ]; do sleep 0.2; done"
    container["command"] = ["sh", "-c", f"{shlex.join(container['command'])} & {waits}"]
    (project.root / "first.yaml").write_text(yaml.safe_dump(job))
    kubectl("create", "-n", namespace, "-f", "first.yaml", cwd=project.root)
    results = project.root / "first"
    process = project.start("collect", "first.yaml", "--with", f"namespace={namespace}", "--results", results)
    (raw,) = until(lambda: list(results.glob("*/*/raw")), 90)
    until(lambda: have_begun([raw / "node1-agent.log"]), 90)
    kubectl("exec", "-n", namespace, pods(namespace)[0]["metadata"]["name"], "--", "touch", "/tmp/end")
    _, stderr = process.communicate()
    kubectl("delete", "-n", namespace, "-f", "first.yaml", "--wait=false", cwd=project.root)
    record = project.record(raw.parent)
    assert (process.returncode, record["status"]) == (1, "failed"), stderr
    assert record["outcome"]["exits"][0]["code"] == 0
    assert re.search("node 1.* because node 0 had ended", record["reason"])
    assert record["ranks"][1]["events_seen"] > 0


@pytest.mark.parametrize(
    ("reference", "reason"),
    [("nowhere.invalid/kit:0", "cannot start: .*nowhere.invalid/kit:0"), ("UPPER//case", "InvalidImageName")],
)
def test_an_image_that_never_starts_ends_the_run_before_its_time(run: Run, reference: str, reason: str) -> None:
    done, record = run("odd-slow", "--layout", "2x1", "--with", f"image={reference}")
    assert (done.code, record["status"]) == (1, "failed")
    assert re.search(reason, record["reason"])
    assert "node 0 " in done.stderr


def test_more_gpus_than_there_are_is_pending_and_says_why(project: Project, run: Run) -> None:
    define(project, "exits", name="odd-greedy", timeout_seconds=round(patient(15)))
    done, record = run("odd-greedy", "--layout", "2x9", device="cuda")
    assert (done.code, record["status"]) == (1, "timed_out")
    assert "Insufficient nvidia.com/gpu" in record["reason"]
    assert "node 1 Unschedulable" in done.stderr


@pytest.mark.parametrize("what", ["pod", "job"])
def test_a_pod_or_a_job_that_somebody_deletes_ends_the_run(
    project: Project, namespace: str, started: Start, what: str
) -> None:
    process, folder = started("odd-slow", "--layout", "2x1", "--set", "seconds=100")
    until(lambda: have_begun([folder / "raw" / f"node{node}-agent.log" for node in (0, 1)]), 60)
    name = pods(namespace)[1]["metadata"]["name"]
    words = ("pod", name, "--grace-period=1") if what == "pod" else ("pytorchjobs", "--all")
    kubectl("delete", "-n", namespace, *words, "--wait=false")
    process.communicate()
    record = project.record(folder)
    assert process.returncode == 1
    assert re.search("node 1.*deleted" if what == "pod" else "deleted", record["reason"])
    assert record["ranks"][0]["events_seen"] > 0
