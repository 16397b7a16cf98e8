"""Processes that do not outlive the runner. A mark in their environment lets any process find them again."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress

import psutil

MARK = "KIT_RUN_ID"
"""The run that a process belongs to: its id, and behind a slash the node if that was started by hand."""
RUNNER = "KIT_RUNNER_PID"
"""The runner that started it."""
_KILLED_SECONDS = 5.0
"""How long the kernel may take to end a process that is killed."""


def marks(mark: str) -> dict[str, str]:
    """Return the environment variables that mark a process and its descendants."""
    return {MARK: mark, RUNNER: str(os.getpid())}


def end_marked(mark: str, grace_seconds: float) -> None:
    """End every process with this mark, for example workers without their agent: SIGTERM, then SIGKILL."""
    for seconds in (grace_seconds, 0):  # and what was started meanwhile
        _end([process for process, environment in _marked() if environment[MARK] == mark], seconds)


def end_orphans(run: str, grace_seconds: float) -> None:
    """End every process of a run whose runner is dead: SIGTERM, then SIGKILL after the grace.

    Raises OSError if one of them does not end, for example because its disk does not answer.
    """
    for seconds in (grace_seconds, 0):  # and what was started meanwhile
        _end(orphans(run), seconds)
    if left := [process.pid for process in orphans(run)]:
        raise OSError(errno.EBUSY, f"its processes {', '.join(map(str, left))} do not end")


def _end(processes: list[psutil.Process], grace_seconds: float) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(processes, grace_seconds)
    for process in alive:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, _KILLED_SECONDS)


def orphans(run: str) -> list[psutil.Process]:
    """Find the processes of a run whose runner is dead."""
    return [
        process
        for process, environment in _marked()
        if environment[MARK].partition("/")[0] == run and not _lives(environment.get(RUNNER, ""), process)
    ]


def _marked() -> Iterator[tuple[psutil.Process, dict[str, str]]]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            environment = process.environ()
            if MARK in environment:
                yield process, environment


def _lives(runner: str, child: psutil.Process) -> bool:
    """Return whether a child's runner lives: a process with its number that is older than the child, and no zombie."""
    try:
        found = psutil.Process(int(runner))
        return found.status() != psutil.STATUS_ZOMBIE and found.create_time() <= child.create_time()
    except (psutil.Error, ValueError, OverflowError):
        return False
