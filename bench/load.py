"""What the load of a node costs to tell: CPU time of the thread that looks, once a second."""

from __future__ import annotations

import os
import time

from experiments import load
from experiments.events import EventLog

LOOKS = 500
GOAL = 0.5


def main() -> None:
    """Print the share of one core that a look and its event take of a second."""
    look = load._machine()  # noqa: SLF001 - what the thread calls
    if look is None:
        print("load: psutil is not installed")
        return
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a descriptor
        log = EventLog(fd=nowhere.fileno())
        began = time.thread_time()
        for _ in range(LOOKS):
            log.point("load", **look())
        share = (time.thread_time() - began) / LOOKS / load.SECONDS * 100
    print(f"load: a look a second takes {share:.3f}% of one core (goal: at most {GOAL:g}%), mean of {LOOKS}")
