"""Divide an epoch's seconds on this rank into loading, computing, exchanging, and waiting for the slowest rank.

Marks divide the time between both ends of an epoch's clock. On a CPU a mark reads the monotonic clock; on a GPU it is a
CUDA event in the stream of the computation, read long after the GPU has passed it: nothing waits for a mark.

All ranks leave an exchange at the same time. In the next exchange, a rank first waits for the slowest rank, as long as
that rank was busy longer. The rest is the exchange. Only durations are compared, so machines' clocks need not agree.
"""

import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from trainkit import distributed
from trainkit.throttling import quota_throttling

Any_Batch = TypeVar("Any_Batch")
DATA, COMPUTE, EXCHANGE, OTHER, LEFT_OUT = "data", "compute", "exchange", "other", "left out"
_BUSY = (DATA, COMPUTE, OTHER)
_READ_FROM = 512
"""Number of pending marks on a GPU from which passed marks are read."""


class TimeUse:
    """Sums the time of one epoch after the other, by kind."""

    def __init__(self, device: torch.device) -> None:
        self._clock: _HostClock | _DeviceClock = _DeviceClock(device) if device.type == "cuda" else _HostClock()
        self._kind: str | None = None
        self._quota = quota_throttling() or (lambda: 0.0)
        self._sums: dict[str, float] = {}
        self._reset()

    @property
    def running(self) -> bool:
        """Whether an epoch is being timed."""
        return self._kind is not None

    def open(self) -> None:
        """Begin an epoch, directly after its clock was started."""
        self._reset()
        self._cpu_seconds, self._throttled = -time.process_time(), -self._quota()
        self._kind = OTHER
        self._clock.start()

    def begin(self, kind: str, *, ends_step: bool = False) -> None:
        """Count the time until the next call as `kind`.

        Args:
            kind: `DATA`, `COMPUTE`, `EXCHANGE`, `OTHER`, or `LEFT_OUT` of the epoch.
            ends_step: whether this ends an exchange that all ranks leave together.
        """
        if self._kind is None:
            return
        if kind == DATA:
            self._knows_data = True
        self._clock.mark(self._kind, ends_step, self._add)
        self._kind = kind

    @contextmanager
    def within(self, kind: str, *, ends_step: bool = False) -> Iterator[None]:
        """Count a block as `kind`, and continue with the previous kind after it."""
        before = self._kind
        if before is None or before == kind:
            yield
            return
        self.begin(kind)
        yield
        self.begin(before, ends_step=ends_step)

    def close(self) -> None:
        """End the epoch, directly after its clock was stopped with the device idle."""
        if self._kind is not None:
            self._clock.mark(self._kind, False, self._add)
            self._clock.read_all(self._add)
            self._kind = None
            self._cpu_seconds += time.process_time()
            self._throttled += self._quota()

    def result(self, train_seconds: float) -> dict[str, float]:
        """Return the epoch's seconds by kind; all ranks must call it, to compare how long each rank was busy.

        Data, compute, communication, straggler and other seconds sum to `train_seconds`. If waiting for batches was
        never marked, `data_seconds` is missing and counted in `compute_seconds`. Further values are ratios:
        `slowest_share` of steps in which this rank was the slowest, and CPU time and time throttled by a CPU quota over
        `train_seconds`.
        """
        sums = self._sums
        straggler, slowest = self._against_slowest()
        parts = {
            "data_seconds": sums[DATA],
            "compute_seconds": sums[COMPUTE],
            "communication_seconds": max(0.0, sums[EXCHANGE] - straggler),
            "straggler_seconds": straggler,
        }
        if not self._knows_data:
            parts["compute_seconds"] += parts.pop("data_seconds") + sums[OTHER]
        other = train_seconds - sum(parts.values())
        # Time that a script excludes by its own clock lies between two marks of its loop.
        parts["compute_seconds"] = max(0.0, parts["compute_seconds"] + min(0.0, other))
        parts["other_seconds"] = max(0.0, other)
        parts["slowest_share"] = slowest
        if train_seconds > 0:
            parts["cpu_share"] = self._cpu_seconds / train_seconds
            parts |= {"throttled_share": self._throttled / train_seconds} if self._throttled > 0 else {}
        return {name: round(seconds, 6) for name, seconds in parts.items()}

    def _reset(self) -> None:
        self._sums = dict.fromkeys((DATA, COMPUTE, EXCHANGE, OTHER, LEFT_OUT), 0.0)
        self._busy, self._waits = array("d"), array("d")
        self._own = self._waited = 0.0
        self._cpu_seconds = self._throttled = 0.0
        self._knows_data = False

    def _add(self, kind: str, seconds: float, ends_step: bool) -> None:  # called positionally for each mark
        self._sums[kind] += seconds
        if kind == EXCHANGE:
            self._waited += seconds
        elif kind in _BUSY:
            self._own += seconds
        if ends_step:
            self._busy.append(self._own)
            self._waits.append(self._waited)
            self._own = self._waited = 0.0

    def _against_slowest(self) -> tuple[float, float]:
        """Return the seconds waited for ranks that were busy longer, and the share of steps with no such rank."""
        if not self._busy:
            self._busy.append(self._own)
            self._waits.append(self._waited)
        counts = distributed.largest([len(self._busy), -len(self._busy)])
        busy, waits = list(self._busy), list(self._waits)
        if counts[0] != -counts[1]:  # the numbers of steps differ, so only sums are comparable
            busy, waits = [sum(busy)], [sum(waits)]
        slowest = distributed.largest(busy)
        waited = sum(min(max(most - own, 0.0), wait) for most, own, wait in zip(slowest, busy, waits, strict=True))
        return waited, sum(own >= most for most, own in zip(slowest, busy, strict=True)) / len(busy)


class InputTime:
    """Adds up the time that this process spends on getting batches."""

    time_use: TimeUse | None
    input_seconds: float

    def timed(self, batches: Iterable[Any_Batch]) -> Iterator[Any_Batch]:
        """Yield the batches and add up the time spent on getting them."""
        mark = self.time_use.begin if self.time_use else lambda _: None
        source = iter(batches)
        while True:
            mark(DATA)
            began = time.perf_counter()
            try:
                batch = next(source)
            except StopIteration:
                mark(OTHER)
                return
            finally:
                self.input_seconds += time.perf_counter() - began
            mark(COMPUTE)
            yield batch


Add = Callable[[str, float, bool], None]


class _HostClock:
    def __init__(self) -> None:
        self._last = 0.0

    def start(self) -> None:
        self._last = time.monotonic()

    def mark(self, kind: str, ends_step: bool, add: Add) -> None:  # called positionally for each mark
        now = time.monotonic()
        add(kind, now - self._last, ends_step)
        self._last = now

    def read_all(self, add: Add) -> None:
        pass


class _DeviceClock:
    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pending: deque[tuple[str, bool, Any]] = deque()
        self._spare: list[Any] = []
        self._last: Any = None

    def start(self) -> None:
        self._pending.clear()
        self._last = self._event()

    def mark(self, kind: str, ends_step: bool, add: Add) -> None:  # called positionally for each mark
        self._pending.append((kind, ends_step, self._event()))
        if len(self._pending) >= _READ_FROM:
            while self._pending and self._pending[0][2].query():
                self._read(add)

    def read_all(self, add: Add) -> None:
        if self._pending:
            self._pending[-1][2].synchronize()
        while self._pending:
            self._read(add)

    def _event(self) -> Any:
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _read(self, add: Add) -> None:
        kind, ends_step, event = self._pending.popleft()
        add(kind, self._last.elapsed_time(event) / 1000, ends_step)
        self._spare.append(self._last)
        self._last = event
