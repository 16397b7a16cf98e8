"""Find and end the processes of a run, so that none outlives its runner.

A variable marks a run's processes. Processes whose variables setproctitle has overwritten are found by their output
into the run's `raw/`. The runner adopts all others, such as daemons that forked twice (`core/parent.py`).
"""

import errno
import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "KIT_RUN_ID"
"""Variable with the run's id, plus `/node<number>` for a node started by hand."""
RUNNER = "KIT_RUNNER_PID"
"""Variable with the process id of the runner."""
_KILLED_SECONDS = 5.0


def marks(mark: str) -> dict[str, str]:
    """Return the variables that mark a process and its descendants."""
    return {MARK: mark, RUNNER: str(os.getpid())}


def end_marked(mark: str, grace_seconds: float, others: Collection[int] | None = None) -> None:
    """End every process with this mark: SIGTERM, then SIGKILL after the grace period.

    A caller that adopts orphans passes the ids of its children outside the run as `others`.
    """
    for seconds in (grace_seconds, 0):  # the second pass ends processes started during the first
        found = [process for process, own, _ in _marked(mark.partition("/")[0]) if f"{own}/".startswith(f"{mark}/")]
        _end([*found, *_adopted(others)], seconds)


def end_orphans(run: str, grace_seconds: float) -> None:
    """End every process of a run whose runner is dead. Raises OSError if a process survives."""
    for seconds in (grace_seconds, 0):
        _end(orphans(run), seconds)
    if left := [process.pid for process in orphans(run)]:
        raise OSError(errno.EBUSY, f"processes {', '.join(map(str, left))} of the run do not end")


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
    """Return the processes of a run whose runner is dead."""
    return [process for process, _, runner in _marked(run) if not _lives(runner, process)]


def _marked(run: str) -> Iterator[tuple[psutil.Process, str, str]]:
    """Yield the processes of a run, each with its mark and its runner's id."""
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
    """Yield adopted children: torchrun starts each worker in a new session."""
    if others is not None:
        for child in psutil.Process().children():
            with suppress(OSError):
                if child.pid not in others and os.getsid(child.pid) != os.getsid(0):
                    yield child


def _lives(runner: str, child: psutil.Process) -> bool:
    """Return whether a runner lives; a process younger than `child` has only reused the runner's id."""
    try:
        found = psutil.Process(int(runner))
        return found.status() != psutil.STATUS_ZOMBIE and found.create_time() <= child.create_time()
    except (psutil.Error, ValueError, OverflowError):
        return False
