"""End the processes of a launcher together with it.

Otherwise a rank whose torchrun was killed would train on, with nobody to stop it or read its output.
"""

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_launcher() -> None:
    """End with torchrun if started by torchrun. A program started by hand continues when its shell is closed."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent()


def end_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends.

    The signal is SIGKILL, because a waiting rank handles no other signal. Source: prctl(2), PR_SET_PDEATHSIG.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "prctl"):  # not Linux
        return
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1 and not _is_python(1):
        os.kill(os.getpid(), signal.SIGKILL)  # the parent ended before the call to prctl


def _is_python(pid: int) -> bool:
    """Return whether a process runs this Python; in a container the launcher may be process 1."""
    try:
        return Path(f"/proc/{pid}/exe").resolve(strict=True) == Path("/proc/self/exe").resolve()
    except OSError:
        return False
