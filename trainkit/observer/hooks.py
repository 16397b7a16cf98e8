"""Puts hooks on parts of torch, each as soon as it has been imported.

No hook changes what a function takes or returns, and a defect in one ends the observation, not the program.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from .output import Output
from .process import ISSUED, Process

_clock = time.perf_counter
_SYNCHRONOUS = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all"),
    *("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "barrier", "monitored_barrier"),
    *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"),
)


_STARTED = "KIT_OBSERVED"
_output = Output()
_process = Process(_output.write, is_child=_STARTED in os.environ)
os.environ.setdefault(_STARTED, str(os.getpid()))


def _quiet(function: Callable[..., Any]) -> Callable[..., None]:
    """Return a function that does nothing once any of the observer has failed."""

    def quiet(*args: Any) -> None:
        if not _process.is_broken:
            try:
                function(*args)
            except Exception as error:  # noqa: BLE001 - the program goes on as if nothing had been
                _process.is_broken = f"the observer failed: {type(error).__name__}: {error}"[:200]

    quiet._torchdynamo_disable = True  # type: ignore[attr-defined]
    return quiet


def begin() -> bool:
    """Begin to observe this process; False if its output goes to a parent that reads it."""
    if not _output.is_open:
        return False
    end, leave = _quiet(_process.end), os._exit
    atexit.register(end)
    os.register_at_fork(after_in_child=lambda: _process.__init__(_output.write, is_child=True))  # type: ignore[misc]

    @wraps(leave)
    def _exit(status: int) -> None:
        end()
        leave(status)

    os._exit = _exit  # type: ignore[assignment]
    return True


def _of_groups(c10d: Any) -> None:
    if not hasattr(c10d, "init_process_group"):  # torch may be built without
        return

    @_quiet
    def formed(group: Any) -> None:
        size = c10d.get_world_size(group)
        if size > 0:  # this rank is one of it
            _process.groups[size, str(c10d.get_backend(group))] += 1
            _process.rank = c10d.get_rank()

    for name in ("init_process_group", "new_group"):
        form = getattr(c10d, name)

        @wraps(form)
        def formed_by(*args: Any, form: Any = form, **kwargs: Any) -> Any:
            before = _process.inside
            _process.inside += 1
            try:
                group = form(*args, **kwargs)
            finally:
                _process.inside = before
            if not before:  # else it is a part of another one
                formed(group)
            return group

        setattr(c10d, name, formed_by)
    for name in _SYNCHRONOUS:
        if hasattr(c10d, name):
            setattr(c10d, name, _timed(getattr(c10d, name)))


def _timed(collective: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(collective)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if _process.inside or threading.get_ident() != _process.thread:
            return collective(*args, **kwargs)
        _process.inside = 1
        began = _clock()
        try:
            work = collective(*args, **kwargs)
        finally:
            _process.inside = 0
            _process.collective_seconds += _clock() - began
        if work is not None and hasattr(work, "wait"):
            _process.doubt("a collective was not waited for at once", "collective_seconds")
        return work

    return timed


def _of_autograd(autograd: Any) -> None:
    backward = autograd.backward

    @_quiet
    def begun() -> None:
        _process.backward()
        if _calls.kind is not None and _calls.kind is not (kind := _process.model.kind()):
            _calls.watch(kind)

    @wraps(backward)
    def watched(*args: Any, **kwargs: Any) -> Any:
        if _process.is_backward:  # a checkpoint computes a part again
            return backward(*args, **kwargs)
        begun()
        _process.is_backward = True
        try:
            return backward(*args, **kwargs)
        finally:
            _process.is_backward = False

    autograd.backward = watched


def _of_optimizers(module: Any) -> None:
    module.register_optimizer_step_pre_hook(_quiet(_process.before_step))
    module.register_optimizer_step_post_hook(_quiet(_process.after_step))


def _of_scalers(module: Any) -> None:
    step = vars(module.GradScaler).get("step")
    if step is None:  # it has that of a class that was here before
        return

    @wraps(step)
    def watched(*args: Any, **kwargs: Any) -> Any:
        before = _process.calls, _process.skipped
        result = step(*args, **kwargs)
        if before == (_process.calls, _process.skipped):
            _process.skipped += 1
        if before[0] == _process.calls:
            _process.since_step = 0
        return result

    module.GradScaler.step = watched


def _of_loaders(module: Any) -> None:
    iterator = module._BaseDataLoaderIter
    take, index, reset = iterator.__next__, iterator._next_index, iterator._reset
    handed_out, ended, begun = _quiet(_process.hand_out), _quiet(_process.pass_ended), _quiet(_process.pass_begun)

    @wraps(take)
    def __next__(self: Any) -> Any:  # noqa: N807
        began = _clock()
        try:
            batch = take(self)
        except StopIteration:
            ended(self)
            raise
        handed_out(self, batch, began)
        return batch

    @wraps(index)
    def _next_index(self: Any) -> Any:
        found = index(self)
        self.__dict__.setdefault(ISSUED, []).append(len(found) if isinstance(found, (list, tuple)) else None)
        return found

    @wraps(reset)
    def _reset(self: Any, *args: Any, **kwargs: Any) -> Any:
        begun(self)
        return reset(self, *args, **kwargs)

    iterator.__next__, iterator._next_index, iterator._reset = __next__, _next_index, _reset


def _of_ddp(module: Any) -> None:
    make = module.DistributedDataParallel.__init__

    @wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        _process.exchanges.watch(self)
        _process.doubt("DistributedDataParallel exchanges gradients outside Python", "collective_seconds")

    module.DistributedDataParallel.__init__ = made


class _Calls:
    """The calls of all outermost modules until gradients are computed; then only of the class of the trained one."""

    kind: Any = None
    own: Any = None  # what was there before, if the class has one itself
    watched: Any = None

    def watch(self, kind: Any) -> None:
        """Watch the calls of a class, and no others; None for those of none."""
        if self.kind is not None and vars(self.kind).get("__call__") is self.watched:
            if self.own is None:
                del self.kind.__call__
            else:
                self.kind.__call__ = self.own
        self.kind = kind
        if kind is None:
            return
        call, self.own, called = kind.__call__, vars(kind).get("__call__"), _quiet(_process.forward)

        def watched(module: Any, *args: Any, **kwargs: Any) -> Any:
            if _process.is_forward or _process.is_backward or self.kind is not kind:  # torch.fx keeps this function
                return call(module, *args, **kwargs)
            _process.is_forward = True
            try:
                result = call(module, *args, **kwargs)
            finally:
                _process.is_forward = False
            called(module, (*args, *kwargs.values()))
            return result

        kind.__call__ = self.watched = watched


_calls = _Calls()


def _of_compilers(eval_frame: Any) -> None:
    def leave() -> None:
        _calls.watch(None)
        _process.model.unknown = why = "torch.compile does not pass through calls of modules"
        _process.doubt(why, "forwards")

    if hasattr(eval_frame, "OptimizeContext"):
        _before(eval_frame.OptimizeContext, "__init__", leave)
    else:
        leave()


def _before(owner: Any, name: str, first: Callable[[], None]) -> None:
    function = getattr(owner, name)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        first()
        return function(*args, **kwargs)

    setattr(owner, name, called)


def _of_shared_batches(owner: str, name: str) -> Callable[[Any], None]:
    def watch(module: Any) -> None:
        place = getattr(module, owner) if owner else module
        _before(place, name, lambda: _process.doubt("several ranks share a batch"))

    return watch


_WATCHED: dict[str, Callable[[Any], None]] = {
    "torch.distributed.distributed_c10d": _of_groups,
    "torch.autograd": _of_autograd,
    "torch.optim.optimizer": _of_optimizers,
    "torch.amp.grad_scaler": _of_scalers,
    "torch.cuda.amp.grad_scaler": _of_scalers,
    "torch.utils.data.dataloader": _of_loaders,
    "torch.nn.modules.module": lambda module: _calls.watch(module.Module),
    "torch.nn.parallel.distributed": _of_ddp,
    "torch._dynamo.eval_frame": _of_compilers,
    "torch.distributed.tensor.parallel.api": _of_shared_batches("", "parallelize_module"),
    "torch.distributed.pipelining.stage": _of_shared_batches("_PipelineStageBase", "__init__"),
    "torch.distributed.pipeline.sync.pipe": _of_shared_batches("Pipe", "__init__"),
}
WATCHED = {name: _quiet(watch) for name, watch in _WATCHED.items()}
