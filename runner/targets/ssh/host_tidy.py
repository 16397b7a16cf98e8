"""What was brought to a host long ago, and is used no more, is removed there.

Whoever needs a folder touches it (`used`), and a run holds a shared lock on what it runs with (`hold`), so that neither
a start nor a long run loses it. Sources: flock(2).
"""

import contextlib
import fcntl
import os
import re
import shutil
import time

KEPT_SECONDS = 30 * 86_400
_BROUGHT = re.compile(r"[0-9a-f]{16,}[\w.-]*")
_RUN = re.compile(r"\d{8}T\d{6}Z-[\w.-]+-node\d+")


def used(folder: str) -> bool:
    """Return whether a folder is there; it is used from now on."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        with contextlib.suppress(OSError):  # another user's, on a shared disk
            os.utime(folder)
    finally:
        os.close(held)
    return os.path.isdir(folder)


def hold(folder: str) -> None:
    """Keep a folder from being removed until this process ends."""
    with contextlib.suppress(OSError):
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)


def tidy(base: str) -> None:
    """Remove programs and data that no run has used for 30 days, and what an ended run left that nobody has fetched."""
    for kind, pattern in (("programs", _BROUGHT), ("data", _BROUGHT), ("runs", _RUN)):
        with contextlib.suppress(OSError):
            for name in os.listdir(os.path.join(base, kind)):
                if pattern.fullmatch(name):
                    _remove_old(os.path.join(base, kind, name))


def _remove_old(folder: str) -> None:
    with contextlib.suppress(OSError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(held).st_mtime > KEPT_SECONDS:
                beside = f"{folder}.{os.getpid()}.tmp"
                os.rename(folder, beside)  # nobody finds a part of it
                shutil.rmtree(beside, ignore_errors=True)
        finally:
            os.close(held)
