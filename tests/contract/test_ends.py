"""However a run ends, on every target: a record says so, what was printed is kept, and nothing is left behind."""

import os
import signal
import time

import pytest

from tests.contract.harness import Harness
from tests.contract.targets import TARGETS, of, on
from tests.support.launches import ended, printed, shown, until
from tests.support.patience import patient

LONG = ("--set", "seconds=100")
ALL_BUT_INDEXED = tuple(name for name in TARGETS if name != "indexed")
"""An indexed job is ended and followed as a PyTorchJob is: they differ in how their nodes are named."""
KILLED = "the runner did not record how the run ended: it was killed, or it could not write"


@on(*ALL_BUT_INDEXED, soon=True)
def test_a_rank_that_exits_is_named_with_its_node_and_code(harness: Harness) -> None:
    done, record = harness.run("odd-exits", "--layout", "2x1", "--set", "code=3")
    assert done.code == 1
    why = "rank 1 (node 1) exited with 3"
    assert (record["status"], record["reason"]) == ("failed", why)
    assert why in done.stderr
    assert record["ranks"][0]["events_seen"] > 0


@of({"1x2": ("compose", "slurm"), "2x1": ("pytorchjob", "trainjob")})
def test_a_node_that_runs_out_of_memory_says_so(harness: Harness, layout: str) -> None:
    if not harness.memory:
        pytest.skip("the memory of a node cannot be limited here")
    done, record = harness.run("odd-memory", "--layout", layout, *harness.memory)
    assert done.code == 1
    assert record["status"] == "failed"
    assert any(node.get("out_of_memory") for node in record["outcome"]["exits"])
    assert "SIGKILL: the container ran out of memory" in record["reason"]
    assert "ran out of memory" in done.stderr


@on(*ALL_BUT_INDEXED, soon=True)
def test_an_interrupted_run_is_collected(harness: Harness) -> None:
    process, run = harness.start("odd-slow", "--layout", "2x1", *LONG)
    until(harness.have_begun(run, 2), 90)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # impatience changes nothing
    code, stderr = ended(process)
    assert code == 130, stderr
    assert "interrupted" in stderr
    record = harness.project.record(run)
    assert record["status"] == "interrupted"
    assert record["epochs"]
    assert [rank["events_seen"] > 1 for rank in record["ranks"]] == [True] * 2
    assert all(node["stopped"] for node in record["outcome"]["exits"])
    assert harness.have_begun(run, 2)()
    harness.require_nothing_left(run)


@on("local", "compose", "pytorchjob", "slurm")
def test_ctrl_c_before_anything_is_printed_is_recorded_too(harness: Harness) -> None:
    process, run = harness.start("odd-slow", "--layout", "2x1", *LONG)
    harness.is_starting(run)
    os.killpg(process.pid, signal.SIGINT)
    code, stderr = ended(process)
    assert code == 130, stderr
    assert harness.project.record(run)["status"] == "interrupted"
    harness.require_nothing_left(run)


@on(*ALL_BUT_INDEXED)
def test_a_runner_that_is_killed_leaves_nothing_and_its_run_can_be_collected(harness: Harness) -> None:
    project = harness.project
    process, run = harness.start("odd-slow", "--layout", "2x1", *LONG)
    until(harness.have_begun(run, 2), 90)
    assert project.record(run)["status"] == "running"
    assert "running" in project.runner("summarize").stdout
    refused = project.runner("collect", run)
    assert refused.code == 2
    assert "its runner still lives" in refused.stderr
    process.kill()
    process.communicate()
    until(lambda: harness.left(run) == [], 90, every=0.5)
    assert project.record(run)["status"] == "running"
    summary = project.runner("summarize")
    assert summary.code == 0
    assert KILLED in summary.stdout
    collected = project.runner("collect", run)
    assert (collected.code, collected.stdout) == (0, f"{run}: incomplete: {KILLED}\n")
    record = project.record(run)
    assert record["status"] == "incomplete"
    assert record["epochs"]
    assert all(rank["events_seen"] > 1 for rank in record["ranks"])
    assert project.runner("collect", run).code == 0
    assert project.record(run) == record


@on("local", "pytorchjob")
def test_a_program_that_never_stops_printing_is_ended_all_the_same(harness: Harness) -> None:
    process, run = harness.start("odd-says", "--layout", "2x1", "--set", "seconds=100000", "--set", "pause=0.001")
    until(lambda: all(printed(run).count(b'"rank": %d' % rank) > 100 for rank in (0, 1)), 90)
    os.killpg(process.pid, signal.SIGINT)
    code, stderr = ended(process)
    assert code == 130, stderr
    record = harness.project.record(run)
    assert record["status"] == "interrupted"
    assert all(rank["events_seen"] > 100 for rank in record["ranks"])
    harness.require_nothing_left(run)


@on("local", "compose", "ssh", series=("pytorchjob", "slurm"))
def test_a_node_that_never_starts_is_named_while_the_others_wait_for_it(harness: Harness) -> None:
    harness.forbid_node_1()
    process, run = harness.start("odd-slow", "--layout", "2x1", *LONG)
    harness.hold_node_1(run)
    said = shown(process, harness.says_of_rendezvous)
    assert int(said["seconds"]) < patient(15)
    os.killpg(process.pid, signal.SIGINT)
    code, stderr = ended(process)
    assert code == 130, stderr
    record = harness.project.record(run)
    assert record["status"] == "interrupted"
    assert all(word in record["reason"] for word in harness.says_of_node_1), (record["reason"], stderr)
    harness.require_nothing_left(run)
