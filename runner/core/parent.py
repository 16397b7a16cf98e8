"""A process that does not outlive its parent, and a parent that adopts what its children leave."""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent dies, however it dies (prctl(2)); for `preexec_fn`."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def adopt(*, orphans: bool) -> None:
    """Let descendants whose parents die become children of this process, or of the system again (prctl(2))."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, int(orphans))
