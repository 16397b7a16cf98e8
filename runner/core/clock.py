"""The clock that all timers of the runner read, so that a test can stop and advance the clock.

Code sent to a host or into a container cannot import `runner`, so it reads that machine's clock.
"""

from time import monotonic, sleep
from time import time as now

__all__ = ["monotonic", "now", "sleep"]
