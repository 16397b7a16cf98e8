"""On Linux, let a process end when its parent dies, and let a process adopt orphaned descendants."""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel send SIGTERM to this process when its parent dies (prctl(2)). Use as `preexec_fn`."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def adopt(*, orphans: bool) -> None:
    """Make this process the new parent of orphaned descendants, or stop doing so (prctl(2))."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, int(orphans))
