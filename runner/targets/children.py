"""Find and end the processes of a run, so that no process outlives the runner.

The variable `MARK` marks a run's processes. If setproctitle has overwritten a process's variables, the process is found
by its output file in the run's `raw/`. The runner adopts every other process, such as a daemon that forked twice
(`core/parent.py`).
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
    """End every process with this mark: send SIGTERM, and SIGKILL after the grace period.

    If the caller adopts orphans, `others` are the ids of its children that it did not adopt.
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
    if others is not None:
        for child in psutil.Process().children():
            with suppress(OSError):
                if child.pid not in others and os.getsid(child.pid) != os.getsid(0):
                    yield child


def _lives(runner: str, child: psutil.Process) -> bool:
    """Return whether a runner lives. A process younger than `child` is not the runner, but has reused its id."""
    try:
        found = psutil.Process(int(runner))
        return found.status() != psutil.STATUS_ZOMBIE and found.create_time() <= child.create_time()
    except (psutil.Error, ValueError, OverflowError):
        return False
