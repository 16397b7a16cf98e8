"""The time that a backward pass waits for DistributedDataParallel's exchange outside Python."""

from __future__ import annotations

import weakref
from typing import Any

FIRST = 11
"""First steps at which timings are read: torch times ten exchanges, then every hundredth, readable one step later."""


class Exchanges:
    """The exchanges that torch has timed: of each, the seconds that computing did not hide."""

    def __init__(self) -> None:
        self.ddp: Any = None  # a weak reference
        self.seconds: dict[int, float] = {}
        self.unknown = "no DistributedDataParallel exchanged gradients often enough"

    def watch(self, ddp: Any) -> None:
        """Start reading torch's timings of this module."""
        if self.ddp is not None:
            self.unknown = "there are several DistributedDataParallel"
        self.ddp = weakref.ref(ddp)

    def read(self) -> None:
        """Read the last timed exchange, unless it is the first, for which the ranks are not ready at the same time."""
        ddp = self.ddp and self.ddp()
        if ddp is not None:
            data = ddp._get_ddp_logging_data()
            if data.get("iteration", 0) > 1 and data.get("backward_comm_time"):
                seconds = (data["backward_comm_time"] - data["backward_compute_comm_overlap_time"]) / 1e9
                self.seconds[data["iteration"]] = max(0.0, seconds)
                self.unknown = self.unknown if "several" in self.unknown else ""

    def mean(self) -> float | None:
        """Return the mean seconds; None if unknown."""
        return None if self.unknown else sum(self.seconds.values()) / len(self.seconds)
