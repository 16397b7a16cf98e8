"""Hangs of real processes on this machine: programs that know nothing of the kit, Ctrl-C, time-outs, and patience."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import TYPE_CHECKING

import pytest

from runner.execution.hangs.watch import QUIET_SECONDS
from tests.support.launches import BEGINNING, WAIT, ended, one_run, until, words_are_printed
from tests.support.projects import patient

if TYPE_CHECKING:
    from tests.support.projects import Project

pytestmark = pytest.mark.real_processes
SCRIPT = """
import time
import torch
import torch.distributed as dist

def load_the_next_batch():
    time.sleep(600)

dist.init_process_group("gloo")
values = torch.ones(3)
dist.all_reduce(values)
print("loss: 0.5", flush=True)
if dist.get_rank():
    load_the_next_batch()
dist.all_reduce(values)
"""
HELD = r"rank 1 \(node 0\) is at .*train\.py:7 in load_the_next_batch; rank 0 .* waits in all_reduce at .* for rank 1"


def test_a_script_that_knows_nothing_of_the_kit_prints_its_stack_as_it_is_ended(project: Project) -> None:
    (project.root / "train.py").write_text(SCRIPT)
    times = {"patience_seconds": 4, "timeout_seconds": round(patient(60))}
    project.define(program="train.py", dialect="none", args={}, matrix={"layout": ["1x2"]}, **times)
    done = project.runner("run", "tiny", "--repeat", "1")
    assert done.code == 1
    record = project.record()
    assert record["status"] == "failed"
    assert re.search(HELD, record["reason"]), record["reason"]
    assert record["failure"]["rank"] == 1
    assert "load_the_next_batch" in done.stderr


def test_a_run_that_overruns_its_time_in_silence_says_where_its_ranks_were(project: Project) -> None:
    asked = "from trainkit.stacks import answer_where\nanswer_where()\n"
    one_run(project, BEGINNING + asked + WAIT, "1x2", timeout_seconds=round(patient(25)))
    done = project.runner("run", "tiny")
    assert done.code == 1
    record = project.record()
    assert record["status"] == "timed_out"
    quiet = r"; nothing was heard for \d+ s: ranks 0, 1 \(node 0\) are at toys/ok\.py:\d+$"
    assert re.search(quiet, record["reason"]), record["reason"]
    assert [one["event"] for one in record["outcome"]["stuck"]["ranks"]] == ["progress", "progress"]


def test_ctrl_c_at_a_silent_run_says_where_its_ranks_were(project: Project) -> None:
    asked = "from trainkit.stacks import answer_where\nanswer_where()\n"
    one_run(project, BEGINNING + asked + WAIT, "1x2")
    process = project.start("run", "tiny")
    until(words_are_printed(project, "waits", 2))
    time.sleep(QUIET_SECONDS + 2)
    os.killpg(process.pid, signal.SIGINT)
    code, stderr = ended(process)
    assert code == 130, stderr
    record = project.record()
    assert record["status"] == "interrupted"
    assert "ranks 0, 1 (node 0) are at toys/ok.py:" in record["reason"]
