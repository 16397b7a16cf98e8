"""Clean up after a run whose runner was killed.

A child process reads a pipe until the runner ends. If the runner has not written `_DONE`, the child cleans up. The
child imports the package `runner` only to clean up, because the package takes nine tenths of the memory.
"""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_DONE = b"done"
_WAIT = f"""
import os, sys
if sys.stdin.buffer.read() != {_DONE!r}:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_CLEAN_UP = f"""
import sys
sys.path[:] = [path for path in sys.path if path]
sys.path.append({str(Path(__file__).resolve().parents[2])!r})
from pathlib import Path
from runner import targets
from runner.records.folder import RunFolder
_, _, target, folder, *words = sys.argv
targets.load(target, words).cleanup(RunFolder(Path(folder)))
"""
"""Code that imports nothing from the working directory, which may have its own `runner` or `queue`."""


def watch(target: str, folder: Path, words: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a run's watchdog in a new session, where Ctrl-C does not reach it.

    `words` are the target's options as `name=value`.
    """
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WAIT, "-c", _CLEAN_UP, __name__, target, str(folder.resolve()), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def release(watchdog: subprocess.Popen[bytes]) -> None:
    """Tell a watchdog that its run has ended and nothing is left to remove."""
    with suppress(BrokenPipeError):  # the watchdog was killed
        watchdog.communicate(_DONE)
