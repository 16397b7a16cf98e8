"""The state of the observer in one process, and the lines that report it."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from .exchanges import FIRST, Exchanges
from .figures import figures
from .loaders import Loaders
from .models import Model
from .passes import Pass
from .steps import FIRST_STEPS, Steps

_CHECKED_STEPS = 100
"""Number of first steps in which the rows of loaders are compared with those that enter the model."""

_NUMBER = "_kit_number"
_numbers = itertools.count()
_clock = time.perf_counter


class Process:
    """All observations in this process."""

    def __init__(self, write: Callable[[bytes], None], *, is_child: bool) -> None:
        self.write, self.is_child = write, is_child
        self.is_broken = ""
        self.began = _clock()
        self.due = self.began + 1.0
        self.rank: int | None = None
        self.groups: Counter[tuple[int, str]] = Counter()
        self.unknown: dict[str, str] = {}
        self.loaders, self.model, self.exchanges = Loaders(self.unknown), Model(), Exchanges()
        self.steps = Steps()  # of optimizers; before the first gradients, calls of outermost modules
        self.is_training = False
        self.optimizers: dict[int, list[Any]] = {}  # by number: steps, first call, last call
        self.stepping: Any = None  # frame of the outermost step in progress
        self.since_tick: set[int] = set()
        self.calls = self.skipped = self.backwards = self.since_step = self.closures = 0
        self.infinite: Any = None
        self.a_step: Counter[int] = Counter()
        self.rates: list[Any] = [None, None]
        self.collective_seconds = 0.0
        self.is_exchanging = self.is_forward = self.is_backward = False
        self.thread = threading.main_thread().ident

    def doubt(self, why: str, *names: str) -> None:
        """Record why figures are unknown; the first reason is kept."""
        for name in names:
            self.unknown.setdefault(name, why)

    def begin_training(self) -> None:
        """Start timing the steps of optimizers."""
        self.is_training, self.steps = True, Steps()

    def forward(self, module: Any, given: tuple[Any, ...], result: Any) -> None:
        """Record a call of an outermost module."""
        if not self.model.unknown:
            self.model.call(module, given, result, has_gradient=sys.modules["torch"].is_grad_enabled())
        if not self.is_training:
            self.tick()

    def backward(self) -> None:
        """Record the start of a backward pass."""
        if not self.is_training:
            self.begin_training()
        self.backwards += 1
        self.since_step += 1
        self.closures += self.stepping is not None
        if not self.model.unknown:
            self.model.feed()
        if self.loaders.feed() and self.steps.count > _CHECKED_STEPS and not self.model.unknown:
            self.model.unknown = "some batches come from a DataLoader"

    def before_step(self, optimizer: Any, *_: Any) -> None:
        """Record the start of an optimizer's step, which may be nested in that of a wrapper or of a parent class."""
        if self.calls and threading.get_ident() != self.thread:
            self.doubt("several threads make steps", "steps", "samples", "batches")
        if self.stepping is not None and _is_running(self.stepping):  # otherwise that step raised, which calls no hook
            return
        self.stepping = sys._getframe(2)
        rate = optimizer.param_groups[0].get("lr")
        self.rates[1] = rate if isinstance(rate, (int, float)) else None
        if not self.calls:
            self.rates[0], self.thread = self.rates[1], threading.get_ident()
            if not self.is_training:
                self.begin_training()

    def after_step(self, optimizer: Any, *_: Any) -> None:
        """Count a finished step, if it is the outermost."""
        if self.stepping is not sys._getframe(2):
            return
        self.stepping = None
        self.settle()
        known = optimizer.__dict__
        if "found_inf" in known and self.was_skipped(known["found_inf"]):
            return
        cuda = sys.modules["torch"].cuda
        if cuda._initialized and cuda.is_current_stream_capturing():
            self.doubt("a CUDA graph repeats them", "steps", "samples", "batches")
        number = known.get(_NUMBER)
        if number not in self.optimizers:
            number = known[_NUMBER] = next(_numbers)
            self.optimizers[number] = [0, self.calls, 0]
        counted = self.optimizers[number]
        counted[0] += 1
        counted[2] = self.calls
        self.calls += 1
        if self.since_tick and number not in self.since_tick:  # of several optimizers, time the most frequent one
            self.since_tick.add(number)
            return
        self.since_tick = {number}
        self.a_step[self.since_step] += 1
        self.since_step = 0
        if self.steps.count <= FIRST:
            self.exchanges.read()
        self.tick()

    def settle(self) -> None:
        """Record that a step used the gradients so far, or that AMP skipped it."""
        self.model.last_input = None
        if self.loaders.fed is not None:
            self.loaders.fed.is_stepped = True

    def was_skipped(self, infinite: Any) -> bool:
        """Return whether a fused optimizer, which checks for infinite gradients itself, skipped its step."""
        if infinite.device.type != "cpu":  # reading it now would wait for the device
            self.infinite = (infinite > 0).to(infinite.dtype) + (0 if self.infinite is None else self.infinite)
            return False
        self.skipped += bool(infinite.item())
        return bool(infinite.item())

    def tick(self) -> None:
        """Record the end of a step, and print a line if one is due."""
        now = _clock()
        if self.is_training and self.steps.count < _CHECKED_STEPS and self.loaders.fed is not None:
            self.check_rows(self.loaders.fed)
        done = self.done() if self.steps.count < FIRST_STEPS else ()
        self.steps.end(now, done, self.loaders.is_interrupted)
        self.loaders.is_interrupted = False
        if now >= self.due:
            self.exchanges.read()
            self.print()

    def check_rows(self, fed: Pass) -> None:
        """Doubt loaders' rows if fewer enter the model: other ranks may train on the rest of a batch."""
        model, rows = self.model, self.loaders.least_rows()
        if not model.unknown and not model.is_called_with(rows):
            self.loaders.doubt("fewer rows enter the model than loaders hand out")
        if not fed.is_batched and (model.unknown or model.uncounted or model.entered != rows):
            self.loaders.doubt("a loader without a batch size")
        if fed.first > 1 and not model.unknown and model.entered > self.loaders.most_rows():
            self.loaders.doubt("more rows enter the model than loaders hand out")

    def done(self) -> tuple[float, ...]:
        """Return the totals so far: rows of loaders and of the model, seconds of loading and in collectives."""
        rows, seconds = self.loaders.done()
        return rows, self.model.rows, seconds, self.collective_seconds

    def print(self, *, is_last: bool = False) -> None:
        """Print a line, unless the program uses the kit itself, or is a child process that does not train.

        Lines are at least a second and a hundredth of the elapsed time apart.
        """
        now = _clock()
        self.due = now + max(1.0, (now - self.began) / 100)
        is_seen = self.is_training or self.groups or self.steps.count
        if "trainkit.event_log" in sys.modules or not (is_seen or (is_last and not self.is_child)):
            return
        import json

        rank = self.rank if self.rank is not None else int(os.environ.get("RANK") or 0)
        place = {"rank": rank, "process": os.getpid(), "is_last": is_last}
        event = {"namespace": "", "time_ms": int(time.time() * 1000), "event_type": "POINT_IN_TIME"}
        event = {**event, "key": "observed", "value": None, "metadata": {**place, **figures(self)}}
        self.write(f"\n:::MLLOG {json.dumps(event, allow_nan=False)}\n".encode())


def _is_running(frame: Any) -> bool:
    here: Any = sys._getframe()
    while here is not None and here is not frame:
        here = here.f_back
    return here is not None
