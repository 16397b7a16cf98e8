"""A process that a launcher started ends with its launcher.

A rank whose torchrun was killed would train on to its end, with no one to stop it or to read what it prints.
"""

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_launcher() -> None:
    """Under torchrun: end with it. A program that was started by hand goes on when its shell is closed."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent()


def end_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends; for one thread, its process.

    SIGKILL, because a rank that waits for the others handles no other signal. Source: prctl(2), PR_SET_PDEATHSIG.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "prctl"):  # Linux alone has it
        return
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1 and not _is_python(1):
        os.kill(os.getpid(), signal.SIGKILL)  # the parent was gone before the kernel was asked


def _is_python(pid: int) -> bool:
    """Return whether a process runs this Python: in a container the launcher itself may be process 1."""
    try:
        return Path(f"/proc/{pid}/exe").resolve(strict=True) == Path("/proc/self/exe").resolve()
    except OSError:
        return False
