"""Puts hooks on parts of torch, each as soon as it has been imported.

No hook changes what a function takes or returns, and a defect in one ends the observation, not the program.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from .output import Output
from .process import Process

_clock = time.perf_counter
_SYNCHRONOUS = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all"),
    *("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "barrier", "monitored_barrier"),
    *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"),
)


class _Here:
    """What is seen in this process; a fork begins anew."""

    def __init__(self) -> None:
        self.output = Output()
        self.process = Process(self.output.write, is_child=_STARTED in os.environ)
        os.environ.setdefault(_STARTED, str(os.getpid()))

    def forked(self) -> None:
        self.process = Process(self.output.write, is_child=True)

    def end(self) -> None:
        _quietly(self.process.print, is_last=True)


_STARTED = "KIT_OBSERVED"


def begin() -> bool:
    """Begin to observe this process; False if its output goes to a parent that reads it."""
    if not _here.output.is_open:
        return False
    atexit.register(_here.end)
    os.register_at_fork(after_in_child=_here.forked)
    leave = os._exit

    @wraps(leave)
    def _exit(status: int) -> None:
        _here.end()
        leave(status)

    os._exit = _exit  # type: ignore[assignment]
    return True


def _quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    process = _here.process
    if not process.is_broken:
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the program goes on as if nothing had been
            process.is_broken = f"the observer failed: {type(error).__name__}: {error}"[:200]


def _of_groups(c10d: Any) -> None:
    if not hasattr(c10d, "init_process_group"):  # torch may be built without
        return

    def formed(group: Any) -> None:
        process, size = _here.process, c10d.get_world_size(group)
        if size > 0:  # this rank is one of it
            process.groups[size, str(c10d.get_backend(group))] += 1
            process.rank = c10d.get_rank()

    for name in ("init_process_group", "new_group"):
        form = getattr(c10d, name)

        @wraps(form)
        def formed_by(*args: Any, form: Any = form, **kwargs: Any) -> Any:
            before = _here.process.inside
            _here.process.inside += 1
            try:
                group = form(*args, **kwargs)
            finally:
                _here.process.inside = before
            if not before:  # else it is a part of another one
                _quietly(formed, group)
            return group

        setattr(c10d, name, formed_by)
    for name in _SYNCHRONOUS:
        if hasattr(c10d, name):
            setattr(c10d, name, _timed(getattr(c10d, name)))


def _timed(collective: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(collective)
    def timed(*args: Any, **kwargs: Any) -> Any:
        process = _here.process
        if process.inside or threading.get_ident() != process.thread:
            return collective(*args, **kwargs)
        process.inside = 1
        began = _clock()
        try:
            work = collective(*args, **kwargs)
        finally:
            process.inside = 0
            process.collective_seconds += _clock() - began
        if work is not None and hasattr(work, "wait"):
            process.doubt("a collective was not waited for at once", "collective_seconds")
        return work

    return timed


def _of_autograd(autograd: Any) -> None:
    backward = autograd.backward

    @wraps(backward)
    def watched(*args: Any, **kwargs: Any) -> Any:
        _quietly(_here.process.backward)
        return backward(*args, **kwargs)

    autograd.backward = watched


def _of_optimizers(module: Any) -> None:
    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        _quietly(_here.process.before_step, optimizer, sys._getframe(1))

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        _quietly(_here.process.after_step, optimizer, sys._getframe(1))

    for hook in (before, after):
        hook._torchdynamo_disable = True  # type: ignore[attr-defined]
    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)
    make = module.Optimizer.__init__

    @wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        _stop_forwards("")
        make(self, *args, **kwargs)

    module.Optimizer.__init__ = made


def _of_scalers(module: Any) -> None:
    step = vars(module.GradScaler).get("step")
    if step is None:  # it has that of a class that was here before
        return

    @wraps(step)
    def watched(*args: Any, **kwargs: Any) -> Any:
        process = _here.process
        before = process.calls, process.skipped
        result = step(*args, **kwargs)
        if before == (process.calls, process.skipped):
            process.skipped += 1
        if before[0] == process.calls:
            process.since_step = 0
        return result

    module.GradScaler.step = watched


def _of_loaders(module: Any) -> None:
    iterator = module._BaseDataLoaderIter
    take, index, reset = iterator.__next__, iterator._next_index, iterator._reset

    def ended(self: Any) -> None:
        _here.process.pass_of(self).ended = True

    def issued(self: Any, found: Any) -> None:
        if isinstance(found, (list, tuple)):
            _here.process.pass_of(self).issued.append(len(found))

    def begun(self: Any) -> None:
        process = _here.process
        before = self.__dict__.pop("_kit_pass", None)
        if before in process.passes:
            process.passes.remove(before)
            process.fold(before)

    @wraps(take)
    def __next__(self: Any) -> Any:  # noqa: N807
        began = _clock()
        try:
            batch = take(self)
        except StopIteration:
            _quietly(ended, self)
            raise
        _quietly(_here.process.hand_out, self, batch, _clock() - began)
        return batch

    @wraps(index)
    def _next_index(self: Any) -> Any:
        found = index(self)
        _quietly(issued, self, found)
        return found

    @wraps(reset)
    def _reset(self: Any, *args: Any, **kwargs: Any) -> Any:
        _quietly(begun, self)
        return reset(self, *args, **kwargs)

    iterator.__next__, iterator._next_index, iterator._reset = __next__, _next_index, _reset


def _of_ddp(module: Any) -> None:
    make = module.DistributedDataParallel.__init__

    @wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        _here.process.doubt("DistributedDataParallel exchanges gradients outside Python", "collective_seconds")

    module.DistributedDataParallel.__init__ = made


_modules: list[Any] = []


def _of_modules(module: Any) -> None:
    """Count the calls of outermost modules until an optimizer is made: then nothing is left in their way."""
    call = module.Module.__call__

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        process = _here.process
        if process.is_forward:
            return call(self, *args, **kwargs)
        process.is_forward = True
        try:
            result = call(self, *args, **kwargs)
        finally:
            process.is_forward = False
        _quietly(process.forward)
        return result

    module.Module.__call__ = watched
    _modules[:] = [module.Module, watched, call]


def _stop_forwards(why: str) -> None:
    if _modules:
        kind, watched, call = _modules
        if kind.__call__ is watched:
            kind.__call__ = call
        _modules.clear()
        if why:
            _here.process.doubt(why, "forwards")


_here = _Here()
WATCHED: dict[str, Callable[[Any], None]] = {
    "torch.distributed.distributed_c10d": _of_groups,
    "torch.autograd": _of_autograd,
    "torch.optim.optimizer": _of_optimizers,
    "torch.amp.grad_scaler": _of_scalers,
    "torch.cuda.amp.grad_scaler": _of_scalers,
    "torch.utils.data.dataloader": _of_loaders,
    "torch.nn.modules.module": _of_modules,
    "torch.nn.parallel.distributed": _of_ddp,
    "torch._dynamo": lambda _: _stop_forwards("torch.compile does not pass through them"),
}
