"""However a run ends, every target records the end, keeps the output and leaves nothing behind."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.contract.harness import Harness, Pods
from tests.contract.targets import TARGETS, on
from tests.support.launches import ended, printed, shown, until
from tests.support.patience import patient

LONG = ("--set", "seconds=100")
ALL_BUT_INDEXED = tuple(name for name in TARGETS if name != "indexed")
"""Targets but indexed jobs, which differ from PyTorchJobs only in the names of their nodes."""


@on(*ALL_BUT_INDEXED, soon=True)
def test_a_rank_that_exits_is_named_with_its_node_and_code(harness: Harness) -> None:
    done, record = harness.run("odd-exits", "--layout", "2x1", "--set", "code=3")
    assert done.code == 1
    why = "rank 1 (node 1) exited with 3"
    assert (record["status"], record["reason"]) == ("failed", why)
    assert why in done.stderr


@on("compose", "slurm", "pytorchjob", "trainjob")
def test_a_node_that_runs_out_of_memory_says_so(harness: Harness) -> None:
    if not harness.memory:
        pytest.skip("the memory of a node cannot be limited here")
    layout = "2x1" if isinstance(harness, Pods) else "1x2"
    done, record = harness.run("odd-memory", "--layout", layout, *harness.memory)
    assert (done.code, record["status"]) == (1, "failed")
    assert any(node.get("out_of_memory") for node in record["outcome"]["exits"])
    assert "out of memory" in record["reason"]
    assert "out of memory" in done.stderr


def interrupted(harness: Harness, process: subprocess.Popen[str], run: Path, times: int = 1) -> tuple[str, Any]:
    """Interrupt a run, once or impatiently; return stderr and the record."""
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.2 * (times > 1))
    code, stderr = ended(process)
    assert code == 130, stderr
    record = harness.project.record(run)
    assert record["status"] == "interrupted"
    harness.require_nothing_left(run)
    return stderr, record


@on(*ALL_BUT_INDEXED, soon=True)
def test_an_interrupted_run_is_collected(harness: Harness) -> None:
    process, run = harness.start("odd-slow", "--layout", "2x1", *LONG)
    until(harness.have_begun(run, 2), 90)
    stderr, record = interrupted(harness, process, run, times=2)
    assert "interrupted" in stderr
    assert record["epochs"]
    assert all(node["stopped"] for node in record["outcome"]["exits"])
    assert harness.have_begun(run, 2)()


@on("local", "compose", "pytorchjob", "slurm")
def test_ctrl_c_before_anything_is_printed_is_recorded_too(harness: Harness) -> None:
    process, run = harness.start("odd-slow", "--layout", "2x1", *LONG)
    harness.is_starting(run)
    interrupted(harness, process, run)


@on(*ALL_BUT_INDEXED)
def test_a_runner_that_is_killed_leaves_nothing_and_its_run_can_be_collected(harness: Harness) -> None:
    project = harness.project
    process, run = harness.start("odd-slow", "--layout", "2x1", *LONG)
    until(harness.have_begun(run, 2), 90)
    assert project.record(run)["status"] == "running"
    project.refused("collect", run)
    process.kill()
    process.communicate()
    until(lambda: harness.left(run) == [], 90, every=0.5)
    assert project.record(run)["status"] == "running"
    assert "killed" in project.runner("summarize").stdout
    assert project.runner("collect", run).code == 0
    record = project.record(run)
    assert record["status"] == "incomplete"
    assert record["epochs"]
    assert harness.have_begun(run, 2)()
    assert project.runner("collect", run).code == 0
    assert project.record(run) == record


@on("local", "pytorchjob")
def test_a_program_that_never_stops_printing_is_ended_all_the_same(harness: Harness) -> None:
    process, run = harness.start("odd-says", "--layout", "2x1", "--set", "seconds=100000", "--set", "pause=0.001")
    until(lambda: all(printed(run).count(b'"rank": %d' % rank) > 100 for rank in (0, 1)), 90)
    _, record = interrupted(harness, process, run)
    assert all(rank["events_seen"] > 100 for rank in record["ranks"])


@on("local", "compose", "ssh", series=("pytorchjob", "slurm"))
def test_a_node_that_never_starts_is_named_while_the_others_wait_for_it(harness: Harness) -> None:
    harness.forbid_node_1()
    process, run = harness.start("odd-slow", "--layout", "2x1", *LONG)
    harness.hold_node_1(run)
    said = shown(process, harness.says_of_rendezvous)
    assert int(said["seconds"]) < patient(15)
    stderr, record = interrupted(harness, process, run)
    assert all(word in record["reason"] for word in harness.says_of_node_1), (record["reason"], stderr)
