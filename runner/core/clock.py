"""The runner's clock: every timer reads it here, so that a test can stop and advance it.

Code that is sent to a host or into a container cannot import `runner`, and reads its machine's clock.
"""

from time import monotonic, sleep
from time import time as now

__all__ = ["monotonic", "now", "sleep"]
