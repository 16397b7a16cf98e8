"""Processes that do not outlive the runner, found again by two marks.

The first mark is in their environment. A process that sets its title (setproctitle) overwrites what /proc shows of it:
the second mark is the file in the run's `raw/` that it prints to. What has neither, for example a daemon that forked
twice, is adopted by a runner that asked for it (`core/parent.py`), and ended with the run.
"""

import errno
import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "KIT_RUN_ID"
"""The run's id, and behind a slash the node if that was started by hand."""
RUNNER = "KIT_RUNNER_PID"
"""The runner that started it."""
_KILLED_SECONDS = 5.0
"""How long the kernel may take to end a killed process."""


def marks(mark: str) -> dict[str, str]:
    """Return the environment variables that mark a process and its descendants."""
    return {MARK: mark, RUNNER: str(os.getpid())}


def end_marked(mark: str, grace_seconds: float, others: Collection[int] | None = None) -> None:
    """End every process with this mark: SIGTERM, then SIGKILL.

    A caller that adopts orphans names its `others`, its children that are not of the run.
    """
    for seconds in (grace_seconds, 0):  # and what was started meanwhile
        found = [process for process, own, _ in _marked(mark.partition("/")[0]) if f"{own}/".startswith(f"{mark}/")]
        _end([*found, *_adopted(others)], seconds)


def end_orphans(run: str, grace_seconds: float) -> None:
    """End every process of a run whose runner is dead; OSError if one does not end, for example on a dead disk."""
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
    return [process for process, _, runner in _marked(run) if not _lives(runner, process)]


def _marked(run: str) -> Iterator[tuple[psutil.Process, str, str]]:
    """Yield each process of a run with its mark and its runner."""
    prints = re.compile(rf"/{re.escape(run)}/raw/(node\d+)[/-]")
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            environment = process.environ()
            if environment.get(MARK, "").partition("/")[0] == run:
                yield process, environment[MARK], environment.get(RUNNER, "")
            elif MARK not in environment:
                files = (str(Path(f"/proc/{process.pid}/fd/{number}").readlink()) for number in (1, 2))
                if node := next(filter(None, map(prints.search, files)), None):
                    yield process, f"{run}/{node[1]}", _runner_above(process)


def _runner_above(process: psutil.Process) -> str:
    with suppress(psutil.Error, OSError):
        for parent in process.parents():
            if runner := parent.environ().get(RUNNER):
                return runner
    return ""


def _adopted(others: Collection[int] | None) -> Iterator[psutil.Process]:
    """Yield what this process has adopted: children in sessions of their own, as torchrun gives one to each worker."""
    if others is not None:
        for child in psutil.Process().children():
            with suppress(OSError):  # it has ended meanwhile
                if child.pid not in others and os.getsid(child.pid) != os.getsid(0):
                    yield child


def _lives(runner: str, child: psutil.Process) -> bool:
    """Return whether a child's runner lives: a process with its number that is older than the child, and no zombie."""
    try:
        found = psutil.Process(int(runner))
        return found.status() != psutil.STATUS_ZOMBIE and found.create_time() <= child.create_time()
    except (psutil.Error, ValueError, OverflowError):
        return False
