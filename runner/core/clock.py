"""The clock of the runner: its timers take their time here, so that a test can hold the clock and move it on.

What is sent to a host or into a container does without the package `runner`, and takes the time of its machine.
"""

from time import monotonic, sleep
from time import time as now

__all__ = ["monotonic", "now", "sleep"]
