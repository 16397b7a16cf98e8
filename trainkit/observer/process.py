"""All that was seen in one process, and the lines that say it."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from .exchanges import FIRST, Exchanges
from .models import Model
from .passes import Pass, rows_of
from .steps import FIRST_STEPS, Steps

KEY = "observed"
MOST_OPTIMIZERS = 1_000
_PASS, ISSUED = "_kit_pass", "_kit_issued"
_clock = time.perf_counter


class Process:
    """All that was seen in this process."""

    def __init__(self, write: Callable[[bytes], None], *, is_child: bool) -> None:
        self.write, self.is_child = write, is_child
        self.is_broken = ""
        self.began = _clock()
        self.due = self.began + 1.0
        self.lines = 0
        self.rank: int | None = None
        self.groups: Counter[tuple[int, str]] = Counter()
        self.unknown: dict[str, str] = {}
        self.optimizers: dict[int, list[Any]] = {}  # by id: [weak reference, name, steps, first call, last call]
        self.gone: list[list[Any]] = []
        self.stepping: Any = None  # the frame of the outermost step under way
        self.lead: list[Any] | None = None  # the optimizer whose steps are timed, and those that stepped since
        self.since_lead: list[list[Any]] = []
        self.calls = self.skipped = self.backwards = self.since_step = 0
        self.infinite: Any = None
        self.a_step: Counter[int] = Counter()
        self.rates: list[Any] = [None, None]
        self.steps, self.forwards = Steps(), Steps()
        self.passes: list[Pass] = []
        self.batches = self.rows = self.other_rows = self.whole = 0
        self.whole_rows: int | None = None
        self.dataset: int | None = None
        self.largest = 0
        self.seconds = self.collective_seconds = 0.0
        self.has_loader = self.is_interrupted = self.is_of_model = False
        self.model, self.exchanges = Model(), Exchanges()
        self.inside = self.closures = 0
        self.is_forward = self.is_backward = False
        self.thread = threading.main_thread().ident

    def doubt(self, why: str, *names: str) -> None:
        """Say why figures cannot be known; the first reason stays."""
        for name in names or ("samples", "batches", "samples_without_gradient", "passes", "samples_per_pass"):
            self.unknown.setdefault(name, why)

    # Loaders

    def pass_of(self, iterator: Any) -> Pass:
        """Return the pass that an iterator is in."""
        found = iterator.__dict__.get(_PASS)
        if found is None or found.owner is not self.passes:  # of the parent process
            found = iterator.__dict__[_PASS] = Pass(iterator, self.passes)
        return found  # type: ignore[no-any-return]

    def pass_begun(self, iterator: Any) -> None:
        """Take in that an iterator begins anew."""
        iterator.__dict__.pop(ISSUED, None)
        before = iterator.__dict__.pop(_PASS, None)
        if before in self.passes:
            self.passes.remove(before)
            self.fold(before)

    def pass_ended(self, iterator: Any) -> None:
        """Take in that an iterator has no more batches."""
        self.pass_of(iterator).ended = True

    def hand_out(self, iterator: Any, batch: Any, began: float) -> None:
        """Take in a batch that a loader hands out."""
        found = self.pass_of(iterator)
        found.seconds += _clock() - began
        if not self.passes or self.passes[-1] is not found:
            self.has_loader = True
            self.close(ended=True)
            if found in self.passes:
                self.passes.remove(found)
            self.passes.append(found)  # the last one handed out last
        issued = iterator.__dict__.get(ISSUED)
        rows = issued.pop(0) if issued else None
        if rows is None or not found.is_list:
            rows = rows_of(batch)
            if rows is None:
                self.doubt("batches without a size")
                rows = 0
        found.hand_out(rows)

    def close(self, *, ended: bool = False) -> None:
        """Fold the passes whose iterator is gone and, with `ended`, those that have come to their end."""
        for one in tuple(self.passes):
            if one.iterator() is None or (ended and one.ended):
                self.fold(one)
                self.passes.remove(one)

    def fold(self, one: Pass) -> None:
        """Add a pass to the totals."""
        if not one.feeds:
            self.other_rows += one.waiting_rows
            self.is_interrupted = True
            return
        ahead, rows = one.ahead()
        if rows is None:
            self.doubt("batches of several sizes were fetched ahead or passed over")
        self.batches, self.rows = self.batches + one.batches - ahead, self.rows + one.rows - (rows or 0)
        self.seconds += one.seconds
        self.largest = max(self.largest, one.largest)
        self.dataset = one.dataset
        if one.is_whole and not ahead:
            self.whole += 1
            self.whole_rows = one.rows

    def backward(self) -> None:
        """Take in that gradients are computed: of the batches that were handed out last."""
        self.backwards += 1
        self.since_step += 1
        self.closures += self.stepping is not None
        if not self.model.unknown:
            self.model.feed()
        self.close()
        newest = None
        for one in self.passes:
            one.after_end += one.ended
            if one.waiting:
                newest = one
        if newest is None:
            return
        if self.backwards > 1:
            self.model.unknown = self.model.unknown or "some batches come from a DataLoader"
        if len(self.passes) > 1:
            self.leave_others(newest)
        if newest.thread != threading.get_ident():
            self.doubt("another thread fetches the batches")
        if why := newest.feed():
            self.doubt(why)

    def leave_others(self, newest: Pass) -> None:
        """Take what other loaders handed out for an evaluation, if that can be."""
        for one in self.passes:
            if one.waiting and one is not newest:
                if one.feeds or one.was_left:
                    self.doubt("batches of several loaders come in turn")
                one.was_left = self.is_interrupted = True
                self.other_rows += one.waiting_rows
                one.waiting = one.waiting_rows = 0
        if newest.was_left:
            self.doubt("batches of several loaders come in turn")

    def done(self) -> tuple[float, ...]:
        """Return what was done so far: rows of loaders and of the model, seconds of waiting for loaders and others."""
        rows, seconds = self.rows, self.seconds
        for one in self.passes:
            if one.feeds:
                rows += one.rows - (one.ahead()[1] or 0)
                seconds += one.seconds
        return rows, self.model.rows, seconds, self.collective_seconds

    # Optimizers

    def before_step(self, optimizer: Any, *_: Any) -> None:
        """Take in that an optimizer begins a step, perhaps within that of another, or of its own class's parent."""
        if self.stepping is not None and _is_running(self.stepping):  # else it has raised, which no hook says
            return
        self.stepping = sys._getframe(2)
        rate = optimizer.param_groups[0].get("lr")
        self.rates[1] = rate if isinstance(rate, (int, float)) else None
        if not self.calls:
            self.rates[0], self.thread = self.rates[1], threading.get_ident()

    def after_step(self, optimizer: Any, *_: Any) -> None:
        """Count a step that has ended, if it is the outermost."""
        if self.stepping is not sys._getframe(2):
            return
        self.stepping = None
        if "found_inf" in optimizer.__dict__ and self.was_skipped(optimizer.found_inf):
            return
        cuda = sys.modules["torch"].cuda
        if cuda._initialized and cuda.is_current_stream_capturing():
            self.doubt("a CUDA graph repeats them", "steps", "samples", "batches")
        known = self.known(optimizer)
        known[2] += 1
        known[4] = self.calls
        self.calls += 1
        if self.is_tick(known):
            now, steps = _clock(), self.steps
            self.a_step[self.since_step] += 1
            self.since_step = 0
            steps.end(now, self.done() if steps.count < FIRST_STEPS else (), self.is_interrupted)
            self.is_interrupted = False
            if steps.count <= FIRST or now >= self.due:
                self.exchanges.read()
            if now >= self.due:
                self.print()

    def was_skipped(self, infinite: Any) -> bool:
        """Return whether a fused optimizer, which looks for infinite gradients by itself, has left its step out."""
        if infinite.device.type != "cpu":  # it is not asked now, which would wait for the device
            self.infinite = (infinite > 0).to(infinite.dtype) + (0 if self.infinite is None else self.infinite)
            return False
        self.skipped += bool(infinite.item())
        return bool(infinite.item())

    def known(self, optimizer: Any) -> list[Any]:
        """Return what is counted of an optimizer."""
        known = self.optimizers.get(id(optimizer))
        if known is None or known[0]() is not optimizer:
            if known:
                self.gone.append(known)
            known = [weakref.ref(optimizer), type(optimizer).__name__, 0, self.calls, 0]
            self.optimizers[id(optimizer)] = known
            if len(self.optimizers) + len(self.gone) > MOST_OPTIMIZERS:
                self.doubt(f"there are more than {MOST_OPTIMIZERS:,} optimizers", "steps", "samples", "batches")
                self.gone.clear()
        return known

    def is_tick(self, known: list[Any]) -> bool:
        """Return whether the steps of this optimizer are those that are timed; of several it is the most frequent."""
        if self.lead is known or self.lead is None or known in self.since_lead:
            self.lead = known
            self.since_lead.clear()
            return True
        self.since_lead.append(known)
        return False

    def forward(self, module: Any, given: tuple[Any, ...]) -> None:
        """Take in that an outermost module was called."""
        if not self.model.unknown:
            self.model.call(module, given, has_gradient=sys.modules["torch"].is_grad_enabled())
        if not self.backwards:
            now = _clock()
            self.forwards.end(now, self.done(), False)
            if now >= self.due:
                self.print()

    def step_count(self) -> int:
        """Return the steps of optimizers that take turns as the most of one, and add those that follow each other."""
        total = most = last = 0
        for _, _, steps, first, end in sorted((*self.gone, *self.optimizers.values()), key=lambda one: one[3]):
            if first > last:
                total, most = total + most, 0
            most, last = max(most, steps), max(last, end)
        return total + most

    # Lines

    def end(self) -> None:
        """Print the last line."""
        self.print(is_last=True)

    def print(self, *, is_last: bool = False) -> None:
        """Print what was seen; nothing of a program that reports itself, and of a child that trains nothing.

        That is at most once a second, and in long runs after a hundredth of what has passed.
        """
        now = _clock()
        self.due = now + max(1.0, (now - self.began) / 100)
        is_seen = self.calls or self.backwards or self.groups or self.forwards.count
        if "trainkit.event_log" in sys.modules or not (is_seen or (is_last and not self.is_child)):
            return
        import json

        fields = self.figures()
        rank = self.rank if self.rank is not None else int(os.environ.get("RANK") or 0)
        place = {"rank": rank, "process": os.getpid(), "line": self.lines, "is_last": is_last}
        event = {
            "namespace": "",
            "time_ms": int(time.time() * 1000),
            "event_type": "POINT_IN_TIME",
            "key": KEY,
            "value": None,
        }
        text = json.dumps({**event, "metadata": {**place, **fields}}, allow_nan=False)
        self.write(f"\n:::MLLOG {text}\n".encode())
        self.lines += 1

    def figures(self) -> dict[str, Any]:
        """Return all that was seen, in SI units; what is not known is null, and `unknown` says why."""
        if self.is_broken:
            return {"unknown": {"all": self.is_broken}}
        shown = self.snapshot()
        steps = self.step_count()
        several = len(self.gone) + len(self.optimizers) > 1
        if self.infinite is not None:
            fused = int(self.infinite.item())
            steps, shown.skipped = steps - fused, self.skipped + fused
            if several:
                shown.doubt("several fused optimizers skip steps", "steps")
        usual = max(shown.a_step, default=None, key=lambda number: (shown.a_step[number], -number))
        shown.doubt_counts(steps, several=several)
        if self.exchanges.unknown:
            shown.doubt(self.exchanges.unknown, "exchange_seconds_a_backward")
        timed, done = (self.steps if self.calls or self.backwards else self.forwards), shown.done()
        found: dict[str, Any] = {
            "groups": [
                {"size": size, "backend": name, "count": count} for (size, name), count in self.groups.most_common(8)
            ],
            "steps": steps,
            "optimizers": [{"name": one[1], "steps": one[2]} for one in (*self.gone, *self.optimizers.values())][:8],
            "skipped_steps": shown.skipped,
            "backwards": self.backwards,
            "accumulation": usual,
            "forwards": None if self.calls or self.backwards else self.forwards.count,
            "samples": shown.rows,
            "samples_from": "model" if shown.is_of_model else "loader",
            "batches": shown.batches,
            "batch_size": shown.largest or None,
            "samples_without_gradient": shown.other_rows,
            "passes": shown.whole,
            "samples_per_pass": shown.whole_rows,
            "dataset_samples": shown.dataset,
            "data_seconds": done[2],
            "collective_seconds": done[3],
            "exchange_seconds_a_backward": self.exchanges.mean(),
            "lr_first": shown.rates[0],
            "lr_last": shown.rates[1],
            "interrupted_seconds": timed.interrupted,
            **shown.clocks(timed, done),
            **_peaks(),
        }
        for name in shown.unknown.keys() & found.keys():
            found[name] = None
        if found["samples"] is None:
            found["samples_from"] = found["samples_after_warmup"] = None
        if found["collective_seconds"] is None:
            found["collective_seconds_after_warmup"] = None
        return {**found, "unknown": {name: why for name, why in shown.unknown.items() if name in found}}

    def doubt_counts(self, steps: int, *, several: bool) -> None:
        """Say what of the counts cannot be known, now that they are compared."""
        if not steps and self.backwards:
            self.doubt("gradients were computed, and no step of an optimizer was seen", "steps")
        elif self.a_step and self.since_step > 2 * max(self.a_step):
            self.doubt("gradients were computed after the last step of an optimizer", "steps")
        if "steps" in self.unknown or not steps:
            self.doubt(
                self.unknown.get("steps") or "no step of an optimizer was seen",
                "samples",
                "batches",
                "passes",
                "samples_per_pass",
            )
        elif steps + self.skipped > self.batches:
            self.take_model(steps, several=several)
        fed = self.model.feeds if self.is_of_model else self.batches
        is_open = not self.is_of_model and "batches" in self.unknown
        if several or is_open or fed - self.since_step > self.backwards:
            self.doubt("several optimizers, or unknown batches", "accumulation")
        elif self.backwards != fed:
            self.doubt("several backward passes a batch, or batches for each", "accumulation")
        if self.rates[0] is None or self.rates[1] is None:
            self.doubt("no step, or a rate that is no number", "lr_first", "lr_last")
        backends = {backend for _, backend in self.groups}
        if any("nccl" in backend for backend in backends):
            self.doubt("NCCL's collectives are asynchronous", "collective_seconds")

    def take_model(self, steps: int, *, several: bool) -> None:
        """Take the rows that entered the model for those that were trained on, if nothing speaks against it."""
        model, few = self.model, "there are more steps than batches of a DataLoader"
        why = few if self.has_loader else "no batch came from a DataLoader"
        self.doubt(why, "batches", "passes", "samples_per_pass")
        if several:
            why += ", and there are several optimizers"
        elif model.unknown:
            why += f", and {model.unknown}"
        elif self.closures > steps:
            why += ", and gradients are computed several times within a step"
        elif model.feeds < steps + self.skipped:
            why += ", and there are steps without gradients"
        elif "samples" not in self.unknown:
            self.is_of_model = True
            self.rows, self.other_rows = model.rows, model.other_rows + model.waiting_rows
            return
        self.doubt(why)

    def clocks(self, timed: Steps, done: tuple[float, ...]) -> dict[str, Any]:
        """Return when the first and the last step ended, and what was done between the warm-up and the last one."""
        offset = time.time() - _clock()
        first, last = (timed.first_end, timed.last_end) if timed.count else (None, None)
        warmup = timed.warmup()
        found: dict[str, Any] = {
            "first_step_ms": first and int((first + offset) * 1000),
            "last_step_ms": last and int((last + offset) * 1000),
            "warmup_steps": warmup,
            "step_seconds": warmup and timed.quantiles(warmup),
        }
        if warmup:
            mark = timed.marks[warmup - 1]
            found["seconds_after_warmup"] = timed.last_end - mark[0]
            found["samples_after_warmup"] = int(done[self.is_of_model] - mark[1 + self.is_of_model])
            found["data_seconds_after_warmup"] = done[2] - mark[3]
            found["collective_seconds_after_warmup"] = done[3] - mark[4]
        return found

    def snapshot(self) -> Process:
        """Return a copy in which the passes under way have been added up."""
        copy = Process.__new__(Process)
        copy.__dict__.update(self.__dict__, unknown=dict(self.unknown), passes=[])
        for one in self.passes:
            copy.fold(one)
        return copy


def _is_running(frame: Any) -> bool:
    here: Any = sys._getframe()
    while here is not None and here is not frame:
        here = here.f_back
    return here is not None


def _peaks() -> dict[str, int | None]:
    """Return the most memory that the process has had, and the most on its GPU."""
    import resource

    cuda = sys.modules["torch"].cuda
    return {
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "peak_gpu_bytes": cuda.max_memory_allocated() if cuda.is_initialized() else None,
    }
