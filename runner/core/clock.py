"""The clock that all timers of the runner read. Tests can stop the clock and advance it.

Code that is sent to a host or into a container cannot import `runner`. Such code reads the machine's clock instead.
"""

from time import monotonic, sleep
from time import time as now

__all__ = ["monotonic", "now", "sleep"]
