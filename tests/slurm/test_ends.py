"""Every way in which Slurm or another user ends a job: the record names it, and nothing is left of the job."""

import os
import re
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.contract.harness import Jobs
from tests.support.jobs import jobs_of, slurm
from tests.support.launches import ended, processes_of, until
from tests.support.odd import define
from tests.support.patience import patient
from tests.support.processes import is_stopped

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]
SUBMIT = ("sbatch", "--parsable", "--output=/dev/null")
LONG = ("odd-slow", "--layout", "2x1", "--set", "seconds=180", "--with")


def job_of(run: Path) -> str:
    found: list[str] = until(lambda: jobs_of(run.name))
    return found[0]


def state_of(job: str) -> str:
    """Return the state of a job, or "" if it has left the queue."""
    return slurm("squeue", "--noheader", "--me", f"--jobs={job}", "--format=%T").strip()


def end_after(harness: Jobs, option: str, end: Callable[[str], object], status: str, why: str) -> Path:
    """Call `end` with the id of a job whose ranks train; check how its record says that it ended."""
    process, run = harness.start(*LONG, option)
    until(harness.have_begun(run, 2), 60)
    end(job_of(run))
    code, stderr = ended(process)
    record = harness.project.record(run)
    assert (code, record["status"]) == (1, status), stderr
    assert re.search(why, record["reason"])
    assert record["epochs"]
    return run


def preempt(job: str) -> None:
    slurm(*SUBMIT, "--partition=high", "--nodes=2", "--exclusive", "--wrap=sleep 1")
    until(lambda: state_of(job) != "RUNNING", 60)


def requeue(job: str) -> None:
    slurm("scontrol", "update", f"JobId={job}", "Requeue=1")  # which only an operator may do
    slurm("scontrol", "requeue", job)


@pytest.mark.xdist_group("slurm nodes that fail")
@pytest.mark.parametrize(
    ("option", "end", "status", "why"),
    [
        ("time=1", str, "timed_out", "limit, 00:01:00"),
        ("time=9", lambda job: slurm("scancel", job), "killed", "not by this runner"),
        ("partition=low", preempt, "killed", "preempted"),
        ("time=9", requeue, "failed", "requeued"),
    ],
    ids=["limit", "scancel", "preempted", "requeued"],
)
def test_a_job_that_was_ended_from_outside(
    harness: Jobs, option: str, end: Callable[[str], object], status: str, why: str
) -> None:
    harness.require_nothing_left(end_after(harness, option, end, status, why))


@pytest.mark.xdist_group("slurm nodes that fail")
def test_a_node_that_fails(harness: Jobs) -> None:
    control = os.environ.get("KIT_SLURM") or pytest.skip("KIT_SLURM names no command that ends and starts the daemons")

    def tell(word: str, _job: str = "") -> None:
        subprocess.run([control, word, "n3"], check=True)

    try:
        run = end_after(harness, "partition=lone", partial(tell, "stop"), "killed", "node .* failed")
    finally:
        tell("restart")
        until(lambda: slurm("sinfo", "--noheader", "--partition=lone", "--format=%T").split() == ["idle"], 60, every=1)
    until(lambda: harness.left(run) == [], 60, every=1)  # without slurmd, nothing ends the processes of its node


def test_ctrl_c_ends_a_job_with_a_stopped_process(harness: Jobs) -> None:
    process, run = harness.start("odd-hangs", "--layout", "2x1", "--set", "how=is stopped")
    until(lambda: any(is_stopped(seen.process) for seen in processes_of(run.name)), 60)
    os.killpg(process.pid, signal.SIGINT)
    code, _ = ended(process)
    assert (code, harness.project.record(run)["status"]) == (130, "interrupted")
    harness.require_nothing_left(run)


@pytest.mark.xdist_group("slurm nodes that fail")
def test_a_job_that_waits_says_why_and_its_time_in_the_queue_is_no_time_of_the_run(harness: Jobs) -> None:
    seconds = round(patient(12))
    own = ("--partition=lone", "--nodes=2", "--exclusive", f"--wrap=sleep {seconds + 3}")
    other = slurm(*SUBMIT, *own).strip()
    until(lambda: state_of(other) == "RUNNING", 30)
    name = define(harness.project, "slow", name="odd-slow-soon", timeout_seconds=seconds)
    done, record = harness.run(name, "--layout", "2x1", "--set", "seconds=1", "--with", "partition=lone")
    assert re.search(r"job \d+ is pending \((Resources|Priority)\)", done.stderr)
    assert record["status"] == "completed", done.stderr
    assert record["outcome"]["wall_seconds"] > seconds
