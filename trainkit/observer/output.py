"""The output of the observer: the standard output with which the process began, even if the program redirects it."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

_FIRST = 200
"""Lowest descriptor number, high enough that the program's own files keep their usual numbers."""
_STDOUT = "KIT_OBSERVED_STDOUT"


class Output:
    """A duplicate of standard output.

    It is closed in a child whose output goes elsewhere, for example to a parent that reads it; such a child is not
    observed.
    """

    def __init__(self) -> None:
        self.is_open, self.fd = False, -1
        with suppress(OSError):
            self.identity = self._identity(1)
            if os.environ.setdefault(_STDOUT, self.identity) == self.identity:
                self.fd = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, _FIRST)
                self.is_open = True

    def write(self, data: bytes) -> None:
        """Write a line at once; it is lost if nobody reads it, or if the program has reused the descriptor."""
        with suppress(OSError):
            if self._identity(self.fd) == self.identity:
                os.write(self.fd, data)

    @staticmethod
    def _identity(fd: int) -> str:
        status = os.fstat(fd)
        return f"{status.st_dev}:{status.st_ino}"
