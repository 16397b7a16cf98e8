"""One rank's events, counted as they come: numbers, clock, start and stop."""

import math
from typing import Any

from runner.core.layout import LARGEST_WORLD
from runner.core.text import one_line
from runner.core.values import number, text, whole
from runner.records.checks import Doubts
from runner.records.events import Event
from runner.records.schema import RankFacts

CLOCK_TOLERANCE_MS = 1_000
"""A clock that is set while a run lasts may step back by less than this."""
CLOCK_SHARE = 0.01
"""The part of a rank's own time by which the host's clock may differ from it: clocks are slewed, at most by 0.05%."""
MOST_EARLY = 10_000
_LARGEST_NUMBER = 10**12
_LONGEST_STATUS = 100
_LONGEST_ERROR = 500


class RankEvents:
    """What one rank's events come to.

    The events of a rank are numbered from 0 without a gap, and the last one, `run_stop`, says how many there are.
    """

    def __init__(self, rank: int, node: int, doubts: Doubts) -> None:
        self.rank, self.node = rank, node
        self.starts = self.stops = 0
        self.first_start, self.last_stop = math.inf, -math.inf
        self.hosts: set[str] = set()
        self.total_seconds: float | None = None
        self._doubts = doubts
        self._facts: dict[str, Any] = {}
        self._link: dict[str, Any] = {}
        self._status: str | None = None
        self._error: str | None = None
        self._events = 0
        self._next = 0  # every number below this one has come
        self._early: set[int] = set()  # numbers that came before their turn
        self._highest = -1
        self._latest_ms = -math.inf

    def take(self, event: Event) -> None:
        """Count one event, and look at its number and its time."""
        self._events += 1
        if event.time_ms < self._latest_ms - CLOCK_TOLERANCE_MS:
            self._doubts.add(f"rank {self.rank}: its clock runs backwards")
        self._latest_ms = max(self._latest_ms, event.time_ms)
        found = whole(event.metadata.get("seq"), 0, _LARGEST_NUMBER)
        if found is None:
            return
        self._highest = max(self._highest, found)
        if found == self._next:
            self._next += 1
            while self._early and self._next in self._early:
                self._early.remove(self._next)
                self._next += 1
        elif found < self._next or found in self._early:
            self._doubts.add(f"rank {self.rank}: a sequence number came twice")
        elif len(self._early) < MOST_EARLY:
            self._early.add(found)

    def start(self, event: Event, fields: dict[str, Any]) -> None:
        """Take in a `run_start`; there is one."""
        self.starts += 1
        self.first_start = min(self.first_start, event.time_ms)
        self.hosts.add(one_line(fields.get("host"), 200))
        if self.starts == 1:
            self._facts = fields
        else:
            self._doubts.add(f"rank {self.rank}: more than one run_start")

    def stop(self, event: Event) -> None:
        """Take in a `run_stop`; there is one, and it comes after the start."""
        self.stops += 1
        self.last_stop = max(self.last_stop, event.time_ms)
        status = one_line(event.metadata.get("status"), _LONGEST_STATUS)
        if self.stops > 1:
            self._doubts.add(f"rank {self.rank}: more than one run_stop: {self._status}, then {status}")
        if self.starts and event.time_ms < self.first_start:
            self._doubts.add(f"rank {self.rank}: it stopped before it started")
        seconds = number(event.metadata.get("total_seconds"), 0.0)
        self._status = status
        self._error = one_line(error, _LONGEST_ERROR) if (error := text(event.metadata.get("error"))) else None
        self.total_seconds = max(self.total_seconds or 0.0, seconds) if seconds is not None else self.total_seconds

    def clock_was_set(self) -> bool:
        """Return whether the host's clock says another time from start to stop than the rank measured: a doubt."""
        if not self.starts or not self.stops or self.total_seconds is None:
            return False
        by_clock = (self.last_stop - self.first_start) / 1_000
        if abs(by_clock - self.total_seconds) <= max(CLOCK_TOLERANCE_MS / 1_000, CLOCK_SHARE * self.total_seconds):
            return False
        told = f"{by_clock:g} s by it, {self.total_seconds:g} s measured"
        self._doubts.add(f"rank {self.rank}: its clock was set: {told}")
        return True

    def link(self, event: Event) -> None:
        """Take in how fast this rank's link to another one was."""
        to = whole(event.metadata.get("to"), 0, LARGEST_WORLD - 1)
        bytes_per_second = number(event.metadata.get("bytes_per_second"))
        if to is not None and bytes_per_second is not None and bytes_per_second > 0:
            self._link = {"link": {"to": to, "bytes_per_second": bytes_per_second}}

    def facts_kept(self) -> RankFacts:
        """Return what the record keeps of this rank."""
        numbered = self._highest >= 0
        return RankFacts(
            rank=self.rank,
            node=self.node,
            facts={**self._facts, **self._link},
            status=self._status,
            events_seen=self._next + len(self._early) if numbered else self._events,
            events_expected=self._highest + 1 if numbered else None,
            error=self._error,
        )
