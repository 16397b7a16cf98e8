"""Measure the CPU time of sampling a node's utilization once a second."""

import os
import time

from trainkit import utilization as load
from trainkit.event_log import EventLog

SAMPLES = 500
GOAL = 0.5


def main() -> None:
    """Print the share of one core that a sample and its event take."""
    sample = load.machine_sampler()
    if sample is None:
        print("load: psutil is not installed")
        return
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a descriptor
        log = EventLog(fd=nowhere.fileno())
        began = time.thread_time()
        for _ in range(SAMPLES):
            log.point("load", **sample())
        share = (time.thread_time() - began) / SAMPLES / load.SECONDS * 100
    print(f"load: a sample a second takes {share:.3f}% of one core (goal: at most {GOAL:g}%), mean of {SAMPLES}")
