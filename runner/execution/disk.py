"""Check that a run's folder can be written, and reserve disk space for its record."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RESERVE_BYTES = 131_072
LITTLE_BYTES = 65_536
"""A run is stopped if fewer bytes are free on its disk."""
NEXT_RUN_BYTES = 1_000_000
"""No further run is started if fewer bytes are free."""


@contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """Reserve disk space for the record during the block. The file has no name, so that no file remains after a crash.

    Raises OSError if the disk is full.
    """
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        yield


def what_is_lost(folder: Path, least_bytes: int = LITTLE_BYTES) -> str | None:
    """Return why a folder can no longer be written (removed, read-only, disk full), or None if it can be written."""
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        return describe_error(error, folder)
    if not os.access(folder, os.W_OK):
        return _read_only(folder)
    blocks = disk.f_bavail if os.geteuid() else disk.f_bfree
    return _full(folder) if disk.f_blocks > 0 and blocks * disk.f_frsize < least_bytes else None


def describe_error(error: Exception, folder: Path) -> str:
    """Return why a file in a run's folder cannot be read or written."""
    if not isinstance(error, OSError):
        return str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(folder)
    if error.errno in (errno.ENOENT, errno.ENOTDIR) and not folder.exists():
        return f"{folder} is gone: it was removed or renamed while the run lasted"
    if error.errno == errno.EROFS:
        return _read_only(folder)
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _full(folder: Path) -> str:
    return f"the disk of {folder} is full"


def _read_only(folder: Path) -> str:
    return f"{folder} has become read-only"
