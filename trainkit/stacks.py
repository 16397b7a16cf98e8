"""Write the stack traces of a process's threads on a signal, even while the process hangs.

`runner/targets/look.py` sends the signal. faulthandler's C handler needs neither Python's lock nor the main thread. The
traces go into an anonymous file in /proc/<pid>/fd (memfd_create(2)), so nothing appears in logs or on disk.
"""

import faulthandler
import os
import signal
from contextlib import suppress
from pathlib import Path

NAME = "kit-stacks"
SIGNAL = signal.SIGRTMIN + 9
"""A real-time signal that Python, torch and schedulers do not use; unhandled, it would end the process."""
_file: list[int] = []


def answer_where() -> None:
    """Install the signal handler, unless there is a handler already or the system has no memfd."""
    if _file or _answers():  # a runner on this machine may have installed the handler
        return
    with suppress(AttributeError, OSError, ValueError):
        _file.append(os.memfd_create(NAME))
        faulthandler.register(SIGNAL, file=_file[0], all_threads=True, chain=False)


def _answers() -> bool:
    return any(NAME in str(link.readlink()) for link in Path("/proc/self/fd").glob("*") if link.is_symlink())
