"""A hang of real processes on this machine."""

import re

import pytest

from tests.support.held_clock import HeldClock
from tests.support.held_runs import run_here
from tests.support.projects import Project

pytestmark = pytest.mark.real_processes
SCRIPT = """
import os
import time
import torch
import torch.distributed as dist

def load_the_next_batch():
    open("loading", "w").close()
    time.sleep(3_600)

dist.init_process_group("gloo")
values = torch.ones(3)
dist.all_reduce(values)
if dist.get_rank():
    load_the_next_batch()
while not os.path.exists("loading"):
    time.sleep(0.1)
print("loss: 0.5", flush=True)
dist.all_reduce(values)
"""
HELD = r"rank 1 \(node 0\) is at .*train\.py:9 in load_the_next_batch; rank 0 .* waits in all_reduce at .* for rank 1"


@pytest.mark.slow
def test_a_script_that_knows_nothing_of_the_kit_prints_its_stack_as_it_is_ended(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], held_clock: HeldClock
) -> None:
    (project.root / "train.py").write_text(SCRIPT)
    times = {"patience_seconds": 100, "timeout_seconds": 1_000}
    project.define(program="train.py", dialect="none", args={}, matrix={"layout": ["1x2"]}, **times)
    run_here(project, monkeypatch, at=b"loss: 0.5", times=1, do=lambda: held_clock.advance(101))
    record = project.record()
    assert record["status"] == "failed"
    assert re.search(HELD, record["reason"]), record["reason"]
    assert record["failure"]["rank"] == 1
    assert "load_the_next_batch" in capsys.readouterr().err
