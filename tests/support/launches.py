"""Tiny programs, and helpers for tests that launch them."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import patient
from tests.support.processes import Seen, seen
from tests.support.projects import Ended, Project

BEGINNING = """
import os
import signal
import sys
import time

from trainkit.event_log import EventLog

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
OWN_TRACEBACK = re.compile(r"^Traceback", re.MULTILINE)
"""A stack trace of the command itself; those of programs and torchrun are shown indented."""


def processes_of(run: str) -> list[Seen]:
    """Return every process with the run's id in its environment."""
    return seen(lambda environ: environ.get("KIT_RUN_ID") == run)


def nothing_is_left_of(run: Path) -> bool:
    return processes_of(run.name) == []


def until(true: Callable[[], Any], seconds: float = 40, *, every: float = 0.1) -> Any:
    """Wait until a function returns something true, and return that."""
    began, bound = time.monotonic(), 0.0
    while not (value := true()):
        bound = max(bound, patient(seconds))
        assert time.monotonic() - began < bound, f"not so after {bound:g} s"
        time.sleep(every)
    return value


def words_are_printed(project: Project, words: str, count: int = 1) -> Callable[[], bool]:
    def look() -> bool:
        files = [*project.results.rglob("stdout.log"), *project.results.rglob("*.stdout")]
        return sum(words in path.read_text(errors="replace") for path in files) >= count

    return look


def printed(run: Path) -> bytes:
    """Return everything that the processes of a run have printed so far."""
    return b"".join(path.read_bytes() for path in (run / "raw").rglob("*") if path.is_file())


def shown(process: subprocess.Popen[str], pattern: re.Pattern[str]) -> re.Match[str]:
    """Read a command's stderr until a pattern matches."""
    assert process.stderr is not None
    text = b""
    while not (match := pattern.search(text.decode(errors="replace"))):
        more = os.read(process.stderr.fileno(), 65_536)
        assert more, f"the command has ended, and said: {text.decode()}"
        text += more
    return match


def one_run(project: Project, source: str, layout: str, **changes: Any) -> Project:
    project.program("toys.ok", source)
    project.define(matrix={"layout": [layout]}, **changes)
    return project


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a run to end and return its exit code and stderr."""
    stdout, stderr = process.communicate()
    assert stdout == ""
    assert not OWN_TRACEBACK.search(stderr), stderr
    return process.returncode, stderr


def records_of(project: Project) -> set[Path]:
    return set(project.results.glob("*/*/run.json"))


def run_once(project: Project, experiment: str, *words: str) -> tuple[Ended, dict[str, Any]]:
    """Run one cell once and return the ended command and the new record."""
    before = records_of(project)
    done = project.runner("run", experiment, *words, "--repeat", "1")
    new = records_of(project) - before
    assert len(new) == 1, done.snapshot
    assert not OWN_TRACEBACK.search(done.stderr), done.snapshot
    return done, project.record(new.pop().parent)


@contextmanager
def starting(project: Project, *last: str) -> Iterator[Callable[..., tuple[subprocess.Popen[str], Path]]]:
    """Yield a function that starts a run with these last words and returns its process and folder."""
    processes: list[subprocess.Popen[str]] = []

    def start(experiment: str, *words: str) -> tuple[subprocess.Popen[str], Path]:
        before = records_of(project)
        process = project.start("run", experiment, *words, *last, "--repeat", "1", "--device", "cpu")
        processes.append(process)
        until(lambda: records_of(project) - before or process.poll() is not None, 60)
        if not (records := records_of(project) - before):
            pytest.fail(f"the command ended before its run began: {process.communicate()[1]}")
        return process, records.pop().parent

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()
