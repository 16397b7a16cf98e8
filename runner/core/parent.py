"""A process that does not outlive its parent."""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent dies, however it dies (prctl(2)); for `preexec_fn`."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
