"""Tiny programs, and what the tests that really launch them share."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tests.runner.conftest import Project

BEGINNING = """
import os
import signal
import sys
import time

from experiments.events import EventLog

RANK = int(os.environ["RANK"])
log = EventLog(RANK)
log.start("run_start", host="here")
"""
END = """
log.point("tracked_stats", {"train_seconds": 1.0})
log.stop("run_stop", status="success")
"""
WAIT = """
print(f"rank {RANK} waits", flush=True)
log.point("progress", 1)
time.sleep(120)
"""
GLOO = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
values = torch.ones(4)
dist.all_reduce(values)
print(f"rank {RANK} has met the others", flush=True)
if RANK == 1:
    time.sleep(0.3)
    print("these are the last words of rank 1", file=sys.stderr, flush=True)
    DIE
dist.all_reduce(values)
"""
GLOO_TOLD = """
try:
    GLOO
except BaseException as error:
    log.stop("run_stop", status="aborted", error=str(error))
    raise
"""


def indented(text: str) -> str:
    return text.strip().replace("\n", "\n    ")


def processes_of(run: str) -> list[psutil.Process]:
    """Every process that carries the run's id in its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("KIT_RUN_ID") == run and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def nothing_is_left_of(run: Path) -> bool:
    return processes_of(run.name) == []


def until(true: Callable[[], Any], seconds: float = 40) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := true():
            return value
        time.sleep(0.1)
    pytest.fail(f"not so after {seconds} s")


def words_are_printed(project: Project, words: str, count: int = 1) -> Callable[[], bool]:
    def look() -> bool:
        files = [*project.results.rglob("stdout.log"), *project.results.rglob("*.stdout")]
        return sum(words in path.read_text(errors="replace") for path in files) >= count

    return look


def one_run(project: Project, source: str, layout: str, **changes: Any) -> Project:
    project.program("toys.ok", source)
    project.define(matrix={"layout": [layout]}, **changes)
    return project


def ended(process: subprocess.Popen[str], seconds: float = 60) -> tuple[int, str]:
    stdout, stderr = process.communicate(timeout=seconds)
    assert stdout == ""
    return process.returncode, stderr
