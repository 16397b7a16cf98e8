"""SIGKILL at random moments: the record has everything that was printed, and no process is left."""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil

from tests.contract.harness import Harness, Hosts, Pods
from tests.contract.targets import on
from tests.support.kills import AGENT_1, RANK_1, at_random, kill, lost, witness
from tests.support.launches import ended, processes_of, shown, until
from tests.support.patience import patient
from tests.support.processes import children_of, end

RUN_SECONDS = 4.0
WITHIN_SECONDS = 15


def start(harness: Harness) -> tuple[subprocess.Popen[str], Path]:
    layout = "2x1" if isinstance(harness, Pods | Hosts) else "1x2"
    return harness.start("odd-counts", "--layout", layout, "--set", "seconds=100")


def finished(harness: Harness, run: Path) -> dict[str, Any]:
    """Follow the advice of `runner summarize` after a killed runner, and return the record."""
    project = harness.project
    summary = project.runner("summarize")
    assert (summary.code, "runner recover results" in summary.stderr) == (0, True), summary.snapshot
    recovered = project.runner("recover")
    assert (recovered.code, recovered.stderr) == (0, ""), recovered.snapshot
    assert f"{run.relative_to(project.root)}: finished: " in recovered.stdout
    harness.require_nothing_left(run)
    assert list(run.rglob(".*")) == []
    return project.record(run)


def require_named_in_time(harness: Harness, folder: Path, who: str, said: str) -> None:
    """Kill a rank or an agent; the record and stderr name it in time, and no line is lost."""
    process, run = start(harness)
    count = witness(harness, run, folder)
    at_random(RUN_SECONDS)
    killed = kill(harness, run, who)
    shown(process, re.compile(said))
    assert time.monotonic() - killed < patient(WITHIN_SECONDS + 5 * isinstance(harness, Hosts))
    code, stderr = ended(process)
    record = harness.project.record(run)
    assert (code, record["status"]) == (1, "failed"), stderr
    assert re.search(said, record["reason"]), record["reason"]
    harness.require_nothing_left(run)
    assert lost(run, count()) == 0


@on("local", series=("compose", "pytorchjob", "ssh", "slurm"), soon=True)
def test_a_rank_that_is_killed_is_named_in_time(harness: Harness, tmp_path: Path) -> None:
    require_named_in_time(harness, tmp_path, RANK_1, "rank 1.*(SIGKILL|signal 9)")


@on("local", "compose", series=("ssh", "slurm"))
def test_an_agent_that_is_killed_is_named_in_time(harness: Harness, tmp_path: Path) -> None:
    require_named_in_time(harness, tmp_path, AGENT_1, "node 0")


def require_nothing_lost(harness: Harness, folder: Path, *, watchdog: bool) -> None:
    """Kill the runner, and the watchdog if it is not to clean up; `runner recover` makes a complete record."""
    process, run = start(harness)
    count = witness(harness, run, folder)
    at_random(RUN_SECONDS)
    runner = harness.project.record(run)["launch"]["runner"]["pid"]  # the process may be only its parent
    left = []
    if not watchdog:
        until(harness.have_begun(run, 2), 90)
        end(*until(lambda: children_of(runner, "runner.targets.watchdog")))
        left = [found.process for found in processes_of(run.name)]
        for suspended in left if harness.words[1] == "local" else []:
            suspended.suspend()  # otherwise the agents would end their ranks
    os.kill(runner, signal.SIGKILL)
    printed = count()
    process.communicate()
    if not watchdog:
        time.sleep(0.5)
        assert harness.left(run) != []
    for suspended in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            suspended.resume()
    assert finished(harness, run)["status"] == "incomplete"
    assert lost(run, printed) == 0


@on("local", series=("compose", "pytorchjob", "ssh", "slurm"))
def test_a_runner_that_is_killed_loses_nothing(harness: Harness, tmp_path: Path) -> None:
    require_nothing_lost(harness, tmp_path, watchdog=True)


@on("local", "pytorchjob", series=("compose", "ssh", "slurm"))
def test_what_runner_and_watchdog_leave_is_ended_by_recover(harness: Harness, tmp_path: Path) -> None:
    require_nothing_lost(harness, tmp_path, watchdog=False)
