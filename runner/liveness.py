"""Whether the runner that began a run still lives."""

from __future__ import annotations

import platform
import socket
from typing import Any

import psutil

import runner


def describe_runner() -> dict[str, Any]:
    """Describe this process, so that a later one can tell whether it still lives."""
    own = psutil.Process()
    return {
        "version": runner.__version__,
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "pid": own.pid,
        "pid_started": own.create_time(),
    }


def is_alive(description: dict[str, Any]) -> bool | None:
    """Tell whether a described runner still lives; None where it is on another machine."""
    if description.get("host") != socket.gethostname():
        return None
    try:
        process = psutil.Process(int(description["pid"]))
        return abs(process.create_time() - float(description["pid_started"])) < 1
    except (psutil.Error, KeyError, ValueError, TypeError):
        return False
