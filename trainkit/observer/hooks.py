"""Install hooks on parts of torch as soon as they are imported.

Hooks never change arguments or results of a function; if one fails, the observation ends, not the program.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from .loaders import ISSUED, Loaders
from .output import Output
from .process import Process

_clock = time.perf_counter
_SYNCHRONOUS = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all"),
    *("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "barrier", "monitored_barrier"),
    *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send", "recv"),
)
_BETWEEN_TWO = ("send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list")


_STARTED = "KIT_OBSERVED"
_output = Output()
_process = Process(_output.write, is_child=_STARTED in os.environ)
os.environ.setdefault(_STARTED, str(os.getpid()))


def _quiet(function: Callable[..., Any]) -> Callable[..., None]:
    """Return a function that never raises and does nothing once part of the observer has failed."""

    def quiet(*args: Any) -> None:
        if not _process.is_broken:
            try:
                function(*args)
            except Exception as error:  # noqa: BLE001 - the program must go on undisturbed
                _process.is_broken = f"the observer failed: {type(error).__name__}: {error}"[:200]

    quiet._torchdynamo_disable = True  # type: ignore[attr-defined]
    return quiet


def begin() -> bool:
    """Start observing this process; return False if its output goes to a parent process that reads it."""
    if not _output.is_open:
        return False

    def end() -> None:
        with suppress(Exception):  # also called if the observer has failed, to report that
            _process.print(is_last=True)

    atexit.register(end)
    os.register_at_fork(after_in_child=lambda: _process.__init__(_output.write, is_child=True))  # type: ignore[misc]
    _around(os, "_exit", first=lambda *_: end())
    return True


def _around(
    owner: Any, name: str, first: Callable[..., None] | None = None, then: Callable[..., None] | None = None
) -> None:
    """Wrap a function: call `first` before it with its arguments, and `then` after it with result and arguments."""
    function = getattr(owner, name)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if first:
            first(*args)
        result = function(*args, **kwargs)
        if then:
            then(result, *args)
        return result

    setattr(owner, name, called)


def _of_groups(c10d: Any) -> None:
    if not hasattr(c10d, "init_process_group"):  # torch was built without it
        return

    @_quiet
    def formed(group: Any, *_: Any) -> None:
        size = c10d.get_world_size(group)
        if size > 0:  # this rank is a member
            _process.groups[size, str(c10d.get_backend(group))] += 1
            _process.rank = c10d.get_rank()

    for name in ("init_process_group", "new_group"):
        _around(c10d, name, then=formed)
    for name in _SYNCHRONOUS:
        if hasattr(c10d, name):
            setattr(c10d, name, _timed(getattr(c10d, name)))
    for name in _BETWEEN_TWO:
        _of_shared_batches("", name, "ranks send each other tensors, and may share a batch")(c10d)


def _timed(collective: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(collective)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if _process.is_exchanging or threading.get_ident() != _process.thread:
            return collective(*args, **kwargs)
        _process.is_exchanging, began = True, _clock()
        try:
            work = collective(*args, **kwargs)
        finally:
            _process.is_exchanging = False
            _process.collective_seconds += _clock() - began
        if hasattr(work, "wait"):
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
        if _process.is_backward:  # activation checkpointing recomputes a part
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
    if step is None:  # inherited from a class that is already hooked
        return

    @wraps(step)
    def watched(*args: Any, **kwargs: Any) -> Any:
        before = _process.calls, _process.skipped
        result = step(*args, **kwargs)
        if before == (_process.calls, _process.skipped):
            _process.skipped += 1
        if before[0] == _process.calls:
            _process.since_step = 0
            _process.settle()
        return result

    module.GradScaler.step = watched


def _of_loaders(module: Any) -> None:
    iterator = module._BaseDataLoaderIter
    take, index = iterator.__next__, iterator._next_index
    handed_out, ended, begun = _quiet(Loaders.hand_out), _quiet(Loaders.pass_ended), _quiet(Loaders.pass_begun)

    @wraps(take)
    def __next__(self: Any) -> Any:  # noqa: N807
        began = _clock()
        try:
            batch = take(self)
        except StopIteration:
            ended(_process.loaders, self)
            raise
        handed_out(_process.loaders, self, batch, began)
        return batch

    @wraps(index)
    def _next_index(self: Any) -> Any:
        found = index(self)
        self.__dict__.setdefault(ISSUED, []).append(len(found) if isinstance(found, (list, tuple)) else None)
        return found

    iterator.__next__, iterator._next_index = __next__, _next_index
    _around(iterator, "_reset", first=lambda self, *_: begun(_process.loaders, self))


def _of_ddp(module: Any) -> None:
    def made(_: None, ddp: Any, *__: Any) -> None:
        _process.exchanges.watch(ddp)
        _process.doubt("DistributedDataParallel exchanges gradients outside Python", "collective_seconds")

    _around(module.DistributedDataParallel, "__init__", then=made)


class _Calls:
    """Watches calls of all outermost modules until the first gradients, then only of the trained module's class."""

    kind: Any = None
    own: Any = None  # the class's original `__call__`, if it defines one itself
    watched: Any = None

    def watch(self, kind: Any) -> None:
        """Watch the calls of one class only; None stops watching."""
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
            if _process.is_forward or _process.is_backward or self.kind is not kind:  # torch.fx may keep this function
                return call(module, *args, **kwargs)
            _process.is_forward = True
            try:
                result = call(module, *args, **kwargs)
            finally:
                _process.is_forward = False
            called(module, (*args, *kwargs.values()), result)
            return result

        kind.__call__ = self.watched = watched


_calls = _Calls()


def _of_compilers(eval_frame: Any) -> None:
    def leave(*_: Any) -> None:
        _calls.watch(None)
        _process.model.unknown = why = "torch.compile does not pass through calls of modules"
        _process.doubt(why, "forwards")

    if hasattr(eval_frame, "OptimizeContext"):
        _around(eval_frame.OptimizeContext, "__init__", first=leave)
    else:
        leave()


def _of_shared_batches(owner: str, name: str, why: str = "several ranks share a batch") -> Callable[[Any], None]:
    def shared(*_: Any) -> None:
        _process.loaders.doubt(why)

    def watch(module: Any) -> None:
        at = getattr(module, owner) if owner else module
        if hasattr(at, name):
            _around(at, name, first=shared)

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
