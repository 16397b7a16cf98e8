"""Cleans up after a run whose runner died without a chance to do it itself, for example by SIGKILL.

A child process waits for the end of a pipe that only the runner holds. A runner that lives until the end of the run
says that there is nothing to do.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner import targets
from runner.records.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

_DONE = b"done"


def watch(target: str, folder: Path, words: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a watchdog for one run; a Ctrl-C at the terminal does not reach it.

    Args:
        target: its name.
        folder: the run's folder.
        words: the target's options, as `name=value`.
    """
    return subprocess.Popen(
        [sys.executable, "-m", __name__, target, str(folder.resolve()), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def release(watchdog: subprocess.Popen[bytes]) -> None:
    """Say that the run has ended and nothing is left of it."""
    with suppress(BrokenPipeError):  # somebody killed it
        watchdog.communicate(_DONE)


def main(target: str, folder: str, *words: str) -> None:
    """Wait for the end of the pipe, and clean up unless the runner said that it was done."""
    if sys.stdin.buffer.read() != _DONE:
        targets.load(target, list(words)).cleanup(RunFolder(Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
