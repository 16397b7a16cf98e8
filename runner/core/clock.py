"""The clock of all timers of the runner, which tests can stop and advance.

Code sent to a host or into a container cannot import `runner`, and reads the clock there.
"""

from time import monotonic, sleep
from time import time as now

__all__ = ["monotonic", "now", "sleep"]
