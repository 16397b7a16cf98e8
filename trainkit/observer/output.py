"""Where the lines go: to what was standard output when the process began, whatever the program does with it later."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

_FIRST = 200
"""A program numbers its own files as it would without this one."""
_STDOUT = "KIT_OBSERVED_STDOUT"


class Output:
    """A second descriptor of standard output.

    It is not open in a child whose output goes elsewhere, as to a parent that reads it: that child is not observed.
    """

    def __init__(self) -> None:
        self.is_open, self.fd = False, -1
        with suppress(OSError):
            self.identity = self._identity(1)
            if os.environ.setdefault(_STDOUT, self.identity) == self.identity:
                self.fd = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, _FIRST)
                self.is_open = True

    def write(self, data: bytes) -> None:
        """Write a line at once; it is lost if nobody takes it, or if the program gave the descriptor another file."""
        with suppress(OSError):
            if self._identity(self.fd) == self.identity:
                os.write(self.fd, data)

    @staticmethod
    def _identity(fd: int) -> str:
        status = os.fstat(fd)
        return f"{status.st_dev}:{status.st_ino}"
