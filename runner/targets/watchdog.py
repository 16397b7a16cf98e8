"""Removes what a run has made where its runner died without a chance to do it, as by SIGKILL.

A child process waits for the end of a pipe that only the runner holds. A runner that lives long enough says that
there is nothing to do.
"""

from __future__ import annotations

import importlib
import subprocess
import sys

_DONE = b"done"


def watch(module: str, *words: str) -> subprocess.Popen[bytes]:
    """Start a watchdog that calls `tidy(*words)` of a module; it is deaf to the terminal's Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-m", "runner.targets.watchdog", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def release(watchdog: subprocess.Popen[bytes]) -> None:
    """Say that all is removed."""
    watchdog.communicate(_DONE)


def main(module: str, *words: str) -> None:
    """Wait for the end of the pipe, and tidy up unless told that it was done."""
    if sys.stdin.buffer.read() != _DONE:
        importlib.import_module(module).tidy(*words)


if __name__ == "__main__":
    main(*sys.argv[1:])
