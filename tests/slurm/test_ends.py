"""Every way in which Slurm itself, or somebody else, ends a job: the record says so, and nothing is left of it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.harness import Jobs
from tests.support.jobs import jobs_of, slurm
from tests.support.launches import ended, processes_of, until
from tests.support.odd import define
from tests.support.patience import patient
from tests.support.processes import is_stopped
from tests.targets.test_slurm import text_of

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]
LONG = ("--layout", "2x1", "--set", "seconds=100")
BY_HAND = {**os.environ, "KIT_PYTHON": sys.executable}


def job_of(run: Path) -> str:
    found: list[str] = until(lambda: jobs_of(run.name))
    return found[0]


def state_of(job: str) -> str:
    """Slurm's word for a job in the queue; empty for one that has left it."""
    return slurm("squeue", "--noheader", "--me", f"--jobs={job}", "--format=%T").strip()


def require_end(harness: Jobs, process: subprocess.Popen[str], run: Path, status: str, why: str) -> None:
    """Wait for a run that has begun and that Slurm ends: its record says so and has what was measured until then."""
    code, stderr = ended(process)
    record = harness.project.record(run)
    assert (code, record["status"]) == (1, status), stderr
    assert re.search(why, record["reason"])
    assert record["epochs"]


@pytest.mark.xdist_group("slurm nodes that fail")
@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (["--with", "time=1"], "timed_out", r"^job \d+: .* time limit, 00:01:00"),
        ([], "killed", "not by this runner"),
    ],
    ids=["limit", "scancel"],
)
def test_a_job_that_slurm_or_somebody_else_ends_says_so(harness: Jobs, words: list[str], status: str, why: str) -> None:
    process, run = harness.start("odd-slow", "--layout", "2x1", "--set", "seconds=180", *words)
    until(harness.have_begun(run, 2), 60)
    if not words:
        slurm("scancel", job_of(run))
    require_end(harness, process, run, status, why)
    harness.require_nothing_left(run)


@pytest.mark.xdist_group("slurm nodes that fail")
def test_a_job_that_is_preempted_is_killed_and_that_is_said(harness: Jobs) -> None:
    process, run = harness.start("odd-slow", *LONG, "--with", "partition=low")
    until(harness.have_begun(run, 2), 60)
    job = job_of(run)
    other = slurm(
        "sbatch", "--parsable", "--partition=high", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 1"
    )
    until(lambda: state_of(job) != "RUNNING", 60)
    require_end(harness, process, run, "killed", "Slurm preempted the job")
    slurm("scancel", other.strip())
    harness.require_nothing_left(run)


def test_a_job_that_somebody_requeues_is_ended(harness: Jobs) -> None:
    project = harness.project
    process, run = harness.start("odd-slow", "--layout", "2x1", "--set", "seconds=9")
    until(harness.have_begun(run, 2), 60)
    job = job_of(run)
    slurm("scontrol", "update", f"JobId={job}", "Requeue=1")  # which only an operator may do
    slurm("scontrol", "requeue", job)
    code, stderr = ended(process)
    first = project.record(run)
    assert (code, first["status"]) == (1, "failed"), stderr
    assert f"Slurm requeued job {job}: " in first["reason"]
    harness.require_nothing_left(run)


@pytest.mark.alone  # its bound is a promise
def test_ctrl_c_leaves_an_empty_queue_within_ten_seconds_also_if_a_process_does_not_listen(harness: Jobs) -> None:
    process, run = harness.start("odd-hangs", "--layout", "2x1", "--set", "how=is stopped")
    job = job_of(run)
    until(lambda: state_of(job) == "RUNNING", 60)
    until(lambda: any(is_stopped(seen.process) for seen in processes_of(run.name)), 60)
    os.killpg(process.pid, signal.SIGINT)
    until(lambda: jobs_of(run.name) == [], 10, every=0.3)
    code, _ = ended(process)
    assert code == 130
    assert harness.project.record(run)["status"] == "interrupted"


@pytest.mark.xdist_group("slurm nodes that fail")
def test_a_job_that_waits_says_why_and_its_time_in_the_queue_is_no_time_of_the_run(harness: Jobs) -> None:
    seconds = round(patient(12))
    own = ("--partition=lone", "--nodes=2", "--exclusive", "--output=/dev/null", f"--wrap=sleep {seconds + 3}")
    other = slurm("sbatch", "--parsable", *own).strip()
    until(lambda: state_of(other) == "RUNNING", 30)
    name = define(harness.project, "slow", name="odd-slow-soon", timeout_seconds=seconds)
    done, record = harness.run(name, "--layout", "2x1", "--set", "seconds=1", "--with", "partition=lone")
    assert re.search(r"job \d+ is pending \((Resources|Priority)\)", done.stderr)
    assert record["status"] == "completed", done.stderr
    assert record["outcome"]["wall_seconds"] > seconds


def test_a_job_by_hand_that_somebody_cancelled_is_collected_with_slurms_word(harness: Jobs) -> None:
    project = harness.project
    layout = {"layout": ["2x1"]}
    text = text_of(project, name="by-hand", program="odd.slow", args={"seconds": 100}, matrix=layout)
    (project.root / "slow.sbatch").write_text(text)
    submit = ["sbatch", "--parsable", "--output=/dev/null", "slow.sbatch"]
    submitted = subprocess.run(submit, cwd=project.root, env=BY_HAND, capture_output=True, text=True, check=True)
    job = submitted.stdout.strip()
    (run,) = until(lambda: list((project.results / "by-hand").glob(f"*-slurm-{int(job):08x}")), 60)
    until(harness.have_begun(run, 2), 60)
    early = project.runner("collect", "slow.sbatch")
    assert (early.code, early.stdout) == (2, "")
    assert f"job {job} still runs: collect it when it has ended" in early.stderr
    slurm("scancel", job)
    until(lambda: state_of(job) == "", 60)
    collected = project.runner("collect", "slow.sbatch")
    why = f"job {job}: cancelled, but not by this runner"
    place = run.relative_to(project.root)
    assert (collected.code, collected.stdout) == (1, f"{place}: killed: node 0, 1 left no exit code: {why}\n")
    assert project.record(run)["epochs"]


@contextmanager
def daemon_down(name: str) -> Iterator[None]:
    control = os.environ.get("KIT_SLURM")
    if not control:
        pytest.skip("KIT_SLURM names no command that ends and starts the daemons")
    subprocess.run([control, "stop", name], check=True)
    try:
        yield
    finally:
        subprocess.run([control, "restart", name], check=True)
        until(lambda: slurm("sinfo", "--noheader", "--partition=lone", "--format=%T").split() == ["idle"], 60, every=1)


@pytest.mark.xdist_group("slurm nodes that fail")
def test_a_node_that_fails_is_named_by_slurms_own_word(harness: Jobs) -> None:
    process, run = harness.start("odd-slow", *LONG, "--with", "partition=lone")
    until(harness.have_begun(run, 2), 60)
    with daemon_down("n3"):
        require_end(harness, process, run, "killed", "a node of the job failed")
    until(lambda: harness.left(run) == [], 60, every=1)  # what runs on a node without slurmd is ended when that is back
