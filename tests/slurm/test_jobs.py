"""Jobs of a real Slurm: the same training as on this machine, and every way in which Slurm itself ends one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.harness import Jobs
from tests.support.jobs import jobs_of, slurm
from tests.support.launches import ended, run_once, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.projects import Project

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]
LONG = ("--layout", "2x1", "--set", "seconds=100")
ON = ("--on", "slurm", "--device", "cpu")


@pytest.fixture
def harness(copied: Project) -> Iterator[Jobs]:
    """The target, with real processes."""
    copied.forked = False
    target = Jobs(copied, "--on", "slurm")
    yield target
    target.close()


def of_training(record: dict[str, Any]) -> list[Any]:
    return [
        [(epoch["epoch_num"], epoch.get("loss_hex")) for epoch in record["epochs"]],
        record["metrics"]["final_loss"],
    ]


@pytest.mark.parametrize("layout", ["1x1", "1x2", "2x1", "2+3"])
def test_a_job_trains_bit_for_bit_as_this_machine_does_and_its_record_differs_in_places_and_times(
    harness: Jobs, layout: str
) -> None:
    words = ("toy", "--layout", layout, "--set", "steps=5", "--device", "cpu")
    _, here = run_once(harness.project, *words)
    done, there = run_once(harness.project, *words, "--on", "slurm")
    assert there["status"] == "completed", done.stderr
    assert of_training(there) == of_training(here)
    assert there.keys() == here.keys()
    assert [rank.keys() for rank in there["ranks"]] == [rank.keys() for rank in here["ranks"]]
    nodes = [one["place"]["machine"] for one in there["outcome"]["exits"]]
    assert nodes == ["n0", "n1"][: len(nodes)] or len(nodes) == 1
    names = [
        sorted(path.name for path in (Path(one) / "raw").iterdir()) for one in places(harness.project, here, there)
    ]
    assert set(names[1]) - set(names[0]) == {"job.log", *(f"node{node}-exit.json" for node in range(len(nodes)))}
    assert set(names[0]) <= set(names[1])


def places(project: Project, *records: dict[str, Any]) -> list[Path]:
    return [project.results / one["launch"]["experiment"] / one["launch"]["id"] for one in records]


def job_of(run: Path) -> str:
    found: list[str] = until(lambda: jobs_of(run.name))
    return found[0]


def test_a_job_at_slurms_own_limit_of_time_has_timed_out(harness: Jobs) -> None:
    name = harness.define("slow", 200)
    process, run = harness.start(name, "--layout", "2x1", "--set", "seconds=180", "--with", "time=1")
    until(harness.have_begun(run, 2), 60)
    code, stderr = ended(process, 200)
    record = harness.project.record(run)
    assert (code, record["status"]) == (1, "timed_out"), stderr
    assert re.fullmatch(
        r"job \d+: Slurm ended it at its limit of time, 00:01:00: ask for more with .*", record["reason"]
    )
    assert record["epochs"]
    harness.require_nothing_left(run)


def test_a_job_that_somebody_else_cancels_is_killed_and_that_is_said(harness: Jobs) -> None:
    process, run = harness.start("odd-slow", *LONG)
    until(harness.have_begun(run, 2), 60)
    slurm("scancel", job_of(run))
    code, _ = ended(process, 90)
    record = harness.project.record(run)
    assert (code, record["status"]) == (1, "killed")
    assert "Slurm says that the job was cancelled, not by this runner" in record["reason"]
    assert record["epochs"]
    harness.require_nothing_left(run)


@pytest.mark.alone
def test_a_job_that_is_preempted_is_killed_and_that_is_said(harness: Jobs) -> None:
    process, run = harness.start("odd-slow", *LONG, "--with", "partition=low")
    until(harness.have_begun(run, 2), 60)
    other = slurm(
        "sbatch", "--parsable", "--partition=high", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 1"
    )
    code, _ = ended(process, 120)
    slurm("scancel", other.strip())
    record = harness.project.record(run)
    assert (code, record["status"]) == (1, "killed")
    assert "Slurm preempted the job" in record["reason"]
    harness.require_nothing_left(run)


def test_ctrl_c_leaves_an_empty_queue_within_ten_seconds_also_if_a_process_does_not_listen(harness: Jobs) -> None:
    process, run = harness.start("odd-hangs", "--layout", "2x1", "--set", "how=is stopped")
    job = job_of(run)
    until(lambda: slurm("squeue", "--noheader", "--job", job, "--format=%T").strip() == "RUNNING", 60)
    time.sleep(8)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    until(lambda: jobs_of(run.name) == [], 20, every=0.3)
    assert time.monotonic() - began < 10
    code, _ = ended(process, 60)
    assert code == 130
    assert harness.project.record(run)["status"] == "interrupted"


@pytest.mark.alone
def test_a_job_that_waits_says_why_and_its_time_in_the_queue_is_no_time_of_the_run(harness: Jobs) -> None:
    other = slurm("sbatch", "--parsable", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 30").strip()
    until(lambda: slurm("squeue", "--noheader", "--job", other, "--format=%T").strip() == "RUNNING", 30)
    name = harness.define("slow", 5)
    done, record = harness.run(name, "--layout", "2x1", "--set", "seconds=1")
    assert re.search(r"job \d+ is pending \((Resources|Priority)\)", done.stderr)
    assert record["status"] == "completed", done.stderr
    assert record["outcome"]["wall_seconds"] > 20


REFUSED = {
    "partition=nope": "Invalid partition name specified",
    "partition=short": "Requested time limit is invalid",
    "partition=lab": "account",
    "mem=900G": "Requested node configuration is not available",
    "nodelist=n9": "Invalid node name specified",
    "constraint=a b": "Invalid feature specification",
    "partition=x --uid=3": "invalid partition specified: x --uid=3",
    "partition=$(touch pwned);`touch pwned`#x": "Invalid partition name specified",
}


@pytest.mark.parametrize("option", REFUSED)
def test_what_slurm_refuses_is_one_line_with_its_reason_before_anything_is_started(harness: Jobs, option: str) -> None:
    before = set(harness.project.results.glob("*/*"))
    done = harness.project.runner("run", "odd-slow", *ON, "--layout", "2x1", "--with", option)
    assert done.code == 2
    assert REFUSED[option] in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert set(harness.project.results.glob("*/*")) == before
    assert not list(harness.project.root.glob("pwned"))


def test_more_processes_than_a_node_has_slots_are_refused(harness: Jobs) -> None:
    harness.project.define(name="wide", program="odd.slow", matrix={"layout": ["1x99"]})
    done = harness.project.runner("run", "wide", *ON)
    assert done.code == 2
    assert "Slurm refuses layout 1x99 with time=" in done.stderr


def test_a_committed_script_is_submitted_by_hand_and_collected_afterwards(harness: Jobs) -> None:
    project = harness.project
    shutil.copytree(Path(__file__).parents[2] / "slurm", project.root / "slurm", dirs_exist_ok=True)
    environment = {**project.environment(), "KIT_PYTHON": sys.executable}
    before = set(project.results.glob("toy/*"))
    words = ["sbatch", "--wait", "--output=/dev/null", "slurm/toy-multinode.sbatch"]
    subprocess.run(words, cwd=project.root, env=environment, check=True, timeout=120)
    collected = project.runner("collect", "slurm/toy-multinode.sbatch")
    assert collected.code == 0, collected.stderr
    assert len(set(project.results.glob("toy/*")) - before) == 1
    assert re.fullmatch(r"results/toy/\S+-slurm-[0-9a-f]{8}: completed\n", collected.stdout)
    assert project.runner("collect", "slurm/toy-multinode.sbatch").stdout == collected.stdout
    record = project.record(project.root / collected.stdout.partition(":")[0])
    assert record["launch"]["by_hand"]
    assert record["metrics"]["final_loss"] > 0


@contextmanager
def daemon_down(name: str) -> Iterator[None]:
    control = os.environ.get("KIT_SLURM")
    if not control:
        pytest.skip("KIT_SLURM names no command that ends and starts the daemons")
    subprocess.run([control, "stop", name], check=True, timeout=60)
    try:
        yield
    finally:
        subprocess.run([control, "restart", name], check=True, timeout=60)
        until(lambda: slurm("sinfo", "--noheader", "--partition=cpu", "--format=%T").split() == ["idle"], 60, every=1)


@pytest.mark.alone
def test_a_node_that_fails_is_named_by_slurms_own_word(harness: Jobs) -> None:
    process, run = harness.start("odd-slow", *LONG)
    until(harness.have_begun(run, 2), 60)
    with daemon_down("n1"):
        code, _ = ended(process, 150)
        record = harness.project.record(run)
        assert (code, record["status"]) == (1, "killed")
        assert "Slurm says that a node of the job failed" in record["reason"]
