"""Removes the containers of a run whose runner died without a chance to do it, as by SIGKILL.

A child process waits for the end of a pipe that only the runner holds. A runner that lives long enough says that
there is nothing to do.
"""

from __future__ import annotations

import subprocess
import sys

_DONE = b"done"


def watch(project: str) -> subprocess.Popen[bytes]:
    """Start a watchdog for a compose project; it is deaf to the terminal's Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-m", "runner.targets.watchdog", project],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def release(watchdog: subprocess.Popen[bytes]) -> None:
    """Say that all is removed."""
    watchdog.communicate(_DONE)


def main(project: str) -> None:
    """Wait for the end of the pipe, and tidy up unless told that it was done."""
    if sys.stdin.buffer.read() == _DONE:
        return
    from runner.engine import reach  # noqa: PLC0415 - rarely needed
    from runner.targets.containers import of_project, remove_all  # noqa: PLC0415

    client = reach()
    for container in of_project(client, project).values():
        container.stop(timeout=10)
    remove_all(client, project)


if __name__ == "__main__":
    main(sys.argv[1])
