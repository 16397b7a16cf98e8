"""Runs on this machine that are ended from outside, besides those of tests/contract; no process is left."""

import math
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from runner.execution import signals
from runner.execution.hangs.hang_watch import Watch
from runner.execution.observer import Observer
from runner.execution.run import follow
from runner.targets.base import Handle
from tests.support.held_clock import HeldClock
from tests.support.held_runs import run_here
from tests.support.launches import BEGINNING, WAIT, nothing_is_left_of, one_run, processes_of, until, words_are_printed
from tests.support.processes import end
from tests.support.projects import Project
from tests.support.records import Make

pytestmark = pytest.mark.real_processes
WAIT_LONG = WAIT.replace("120", "3_600")


@pytest.mark.slow
def test_a_run_that_overruns_its_time_in_silence_is_ended_and_says_where_its_ranks_were(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], held_clock: HeldClock
) -> None:
    """One rank ends on SIGTERM, the other ignores it; each has a child, like a data loader's worker."""
    answers = "from trainkit.stacks import answer_where\nanswer_where()\n"
    ignores = "if RANK:\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    child = "import subprocess\nsubprocess.Popen(['sleep', '3600'])\n"
    one_run(project, BEGINNING + answers + ignores + child + WAIT_LONG, "1x2", timeout_seconds=1_000)
    run_here(project, monkeypatch, at="progress", times=2, do=lambda: held_clock.advance(1_001))
    record = project.record()
    assert record["status"] == "timed_out"
    assert re.search(r" 1001 s: rank 0, 1 \(node 0\) is at toys/ok\.py:\d+$", record["reason"]), record["reason"]
    assert [rank["event"] for rank in record["outcome"]["stuck"]["ranks"]] == ["progress", "progress"]
    assert "timed out: " in capsys.readouterr().err
    assert nothing_is_left_of(project.runs()[0])


@pytest.mark.slow
def test_ranks_end_if_the_runner_and_its_agents_are_killed_together(project: Project) -> None:
    one_run(project, BEGINNING + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT, "1x2")
    process = project.start("run", "tiny")
    until(words_are_printed(project, "waits", 2))
    (run,) = project.runs()
    (agent,) = [found.process for found in processes_of(run.name) if found.is_agent]
    process.kill()
    end(agent)
    process.communicate()
    until(lambda: nothing_is_left_of(run))


class Drops:
    """An object whose removal gets a signal: Python drops exceptions of `__del__`, as it does those of fork hooks."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_whose_exception_python_drops_ends_the_run(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)

    class Endless(Handle):
        def lines(self) -> Iterator[None]:
            Drops()
            while True:
                yield None

        def stop(self) -> None:
            pass

    folder = make.run(tmp_path)
    watch = Watch(Endless(), folder.launch())
    with signals.taken() as interrupts, interrupts.raising(), pytest.raises(KeyboardInterrupt):
        follow(Endless(), folder, math.inf, cast("Observer", None), watch, interrupts)
    watch.close()
    assert shown == []  # no traceback of the dropped exception
