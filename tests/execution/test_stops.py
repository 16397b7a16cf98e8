"""Runs that are ended from outside: out of time, interrupted, killed. Nothing is left behind, and a record says so."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.launches import (
    BEGINNING,
    WAIT,
    ended,
    nothing_is_left_of,
    one_run,
    processes_of,
    until,
    words_are_printed,
)

if TYPE_CHECKING:
    from tests.support.projects import Project

pytestmark = pytest.mark.real_processes


@pytest.mark.parametrize("polite", [True, False], ids=["ends when asked", "ignores SIGTERM"])
def test_a_run_that_overruns_its_time_is_ended(project: Project, polite: bool) -> None:  # noqa: FBT001
    ignore = "" if polite else "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    child = "import subprocess\nsubprocess.Popen(['sleep', '119'])\n"  # a data loader's worker, say
    one_run(project, BEGINNING + ignore + child + WAIT, "1x2", timeout_seconds=12)
    began = time.monotonic()
    done = project.runner("run", "tiny")
    assert done.code == 1
    assert time.monotonic() - began < 60
    record = project.record()
    assert (record["status"], record["reason"]) == ("timed_out", "not done after timeout_seconds: 12")
    assert record["events"]["seen"] == 4
    assert "time is up" in done.stderr
    assert nothing_is_left_of(project.runs()[0])


def test_a_program_that_prints_without_a_pause_overruns_too(project: Project) -> None:
    one_run(
        project,
        BEGINNING + "while True:\n    log.point('progress', 1)\n    time.sleep(0.0005)\n",
        "1x1",
        timeout_seconds=3,
    )
    began = time.monotonic()
    assert project.runner("run", "tiny").code == 1
    assert time.monotonic() - began < 15
    assert project.record()["status"] == "timed_out"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_interrupted_is_collected_and_leaves_nothing_behind(
    project: Project, number: signal.Signals
) -> None:
    one_run(project, BEGINNING + WAIT, "1x2", repeat=3)
    process = project.start("run", "tiny")
    until(words_are_printed(project, "waits", 2))
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    time.sleep(0.2)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)  # impatience changes nothing
    code, stderr = ended(process)
    assert code == 130, stderr
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    record = project.record()
    assert record["status"] == "interrupted"
    assert record["events"]["seen"] == 4
    (run,) = project.runs()
    for rank in (0, 1):
        assert f"rank {rank} waits" in (run / "raw" / f"node0-rank{rank}.stdout").read_text()
    assert nothing_is_left_of(run)


def test_ctrl_c_before_the_processes_print_anything_is_recorded_too(project: Project) -> None:
    one_run(project, BEGINNING + WAIT, "1x1")
    process = project.start("run", "tiny")
    until(lambda: project.results.exists() and list(project.results.rglob("run.json")), 20)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    code, stderr = ended(process)
    assert code == 130, stderr
    assert project.record()["status"] == "interrupted"
    assert nothing_is_left_of(project.runs()[0])


def test_ranks_end_if_the_runner_and_its_agents_are_killed_together(project: Project) -> None:
    one_run(project, BEGINNING + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT, "1x2")
    process = project.start("run", "tiny")
    until(words_are_printed(project, "waits", 2))
    (run,) = project.runs()
    agents = [one for one in processes_of(run.name) if "torch.distributed.run" in one.cmdline()]
    assert len(agents) == 1
    process.kill()
    for agent in agents:
        agent.kill()
    process.communicate()
    until(lambda: nothing_is_left_of(run), 60)


def test_a_runner_that_is_killed_leaves_no_process_and_its_run_can_be_collected(project: Project) -> None:
    one_run(project, BEGINNING + WAIT, "1x2")
    process = project.start("run", "tiny")
    until(words_are_printed(project, "waits", 2))
    (run,) = project.runs()
    assert project.record()["status"] == "running"
    running = project.runner("summarize")
    assert "running" in running.stdout
    refused = project.runner("collect", run)
    assert refused.code == 2
    assert "its runner still lives" in refused.stderr
    process.kill()
    process.communicate()
    until(lambda: nothing_is_left_of(run), 40)
    assert project.record()["status"] == "running"
    summary = project.runner("summarize")
    assert summary.code == 0
    why = "the runner did not record how the run ended: it was killed, or it could not write"
    assert why in summary.stdout
    collected = project.runner("collect", run)
    assert (collected.code, collected.stdout) == (0, f"{run}: incomplete: {why}\n")
    record = project.record()
    assert record["status"] == "incomplete"
    assert record["events"]["seen"] == 4
    assert project.runner("collect", run).code == 0
    assert project.record() == record
