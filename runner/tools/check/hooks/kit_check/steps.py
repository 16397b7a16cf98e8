"""Hooks for optimizer steps, and for gradients before and after averaging."""

import functools
import os
import signal

from kit_check import draws, forward, replay, sample_rows
from kit_check.recorder import recorder
from kit_check.state import parameters_of, state

_most = int(os.environ.get("KIT_CHECK_STEPS") or 0)
_killed_at = int(os.environ.get("KIT_CHECK_KILL") or -1)
_FEW_STEPS, _FEW_SECONDS = 100, 12.0
_HASHED = 8
_SCHEDULED = ("lr", "momentum", "betas")
_local = {}
_handles = {}
_stepping = []
_own_rates = []
_clock = {"began": 0.0, "hashing": 0.0, "backwards": 0, "value": None}


def of_torch(torch):
    """Install hooks on optimizers and backward."""
    from torch.optim import optimizer as module

    recorder.hook([module.Optimizer], "__init__", after=_made)
    recorder.hook([module.Optimizer], "zero_grad", lambda self, *_, **kwargs: _forget(parameters_of(self)))
    recorder.hook([torch.nn.Module], "zero_grad", lambda self, *_, **kwargs: _forget(self.parameters()))
    recorder.hook([torch.autograd], "backward", _backward)
    module.register_optimizer_step_pre_hook(_before_step)
    module.register_optimizer_step_post_hook(_after_step)
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        recorder.hook([torch.nn.utils, torch.nn.utils.clip_grad], name, _clip)
    recorder.hook([torch.optim.lr_scheduler.LRScheduler], "__init__", lambda *_, **kwargs: recorder.emit("scheduler"))
    recorder.at_exit += [_last, replay.save, replay.path]


def _made(_, optimizer, *args, **kwargs):
    state.optimizers.append(optimizer)
    recorder.emit("optimizer", name=type(optimizer).__name__, place=recorder.place(made=optimizer))


def _clip(*args, **kwargs):
    recorder.emit("clip", place=recorder.place())


def _backward(tensors, *args, **kwargs):
    first = tensors if hasattr(tensors, "detach") else next(iter(tensors), None)
    value = float(first.detach()) if first is not None and first.numel() == 1 else None
    _clock["backwards"] += 1
    recorder.emit("backward", value=value, place=recorder.place())


def _forget(parameters):
    for parameter in parameters:
        _local.pop(id(parameter), None)


def watch_gradients():
    """Watch the gradient of every parameter before it is averaged."""
    if state.steps >= state.kept or state.is_sharded:
        return
    for parameter in state.parameters():
        if id(parameter) not in _handles and parameter.requires_grad:
            _handles[id(parameter)] = parameter.register_hook(functools.partial(_add, id(parameter)))


def _add(key, gradient):
    with recorder.guarded():
        part = sample_rows.sampled(gradient)
        _local[key] = _local[key] + part if key in _local else part


def _is_inner(optimizer):
    """Return whether another optimizer calls this one's step, as ZeroRedundancyOptimizer does."""
    return bool(_stepping) and _stepping[0] is not optimizer


def _before_step(optimizer, args, kwargs):
    with recorder.guarded():
        if not recorder.is_here or _is_inner(optimizer):
            return
        _stepping[:] = [optimizer]
        _clock["began"] = _clock["began"] or recorder.clock()
        parameters, step = parameters_of(optimizer), state.steps
        if not step:
            replay.keep_weights()
        if step == _killed_at:
            recorder.end()
            os.kill(os.getpid(), signal.SIGKILL)
        if step < _HASHED:
            forward.buffers()
        recorder.emit(
            "step",
            step=step,
            optimizer=next((at for at, known in enumerate(state.optimizers) if known is optimizer), 0),
            backwards=_clock["backwards"],
            weights=_fingerprint(parameters),
            gradients=_fingerprint([p.grad for p in parameters if p.grad is not None]) if step < _HASHED else None,
            shapes=len(parameters),
            rate=[float(group.get("lr", 0)) for group in optimizer.param_groups][:4],
            **(_kept_by(optimizer, parameters) if recorder.is_whole else {}),
            place=recorder.place(),
        )
        _clock["backwards"] = 0
        if not _has_closure(optimizer, args, kwargs):
            _keep(optimizer)
        if recorder.mode == "replay" and (rates := replay.rates(step)):
            _own_rates[:] = _rates_of(optimizer)
            _set_rates(optimizer, rates)


def _after_step(optimizer, args, kwargs):
    with recorder.guarded():
        if not recorder.is_here or _is_inner(optimizer):
            return
        _stepping.clear()
        if _has_closure(optimizer, args, kwargs):
            _keep(optimizer)
        _set_rates(optimizer, _own_rates)
        _own_rates.clear()
        state.steps += 1
        if state.steps == state.kept:
            for handle in _handles.values():
                handle.remove()
    if state.steps >= state.kept and recorder.mode != "observe":
        recorder.leave()
    with recorder.guarded():
        if state.steps == state.kept:
            replay.save()
    limit = _most
    if not limit and state.current is None and recorder.world == 1 and state.steps >= _FEW_STEPS:
        limit = state.steps if recorder.clock() - _clock["began"] > _FEW_SECONDS else 0
    if limit and state.steps >= limit and (state.current is None or "KIT_CHECK_STEPS_HARD" in os.environ):
        recorder.leave()


def _has_closure(optimizer, args, kwargs):
    return callable(kwargs.get("closure") or next((value for value in args if value is not optimizer), None))


def _rates_of(optimizer):
    return [{name: group[name] for name in _SCHEDULED if name in group} for group in optimizer.param_groups]


def _set_rates(optimizer, rates):
    """Set learning rates. A replay sets the ranks' rates, since a program may derive rates from its number of ranks."""
    for group, rate in zip(optimizer.param_groups, rates):
        group.update(rate)


def _keep(optimizer):
    if state.steps >= state.kept or state.is_sharded:
        return
    parameters = parameters_of(optimizer)
    order = {id(parameter): at for at, parameter in enumerate(state.parameters())}
    kept = {
        "rates": _rates_of(optimizer),
        "used": {
            order[id(p)]: sample_rows.sampled(p.grad) for p in parameters if p.grad is not None and id(p) in order
        },
        "local": {order[id(p)]: _local[id(p)] for p in parameters if id(p) in _local and id(p) in order},
    }
    _forget(parameters)
    replay.keep_step(kept)


def _kept_by(optimizer, parameters):
    states = [optimizer.state.get(parameter, {}) for parameter in parameters]
    tensors = [kept[key] for kept in states for key in sorted(kept) if hasattr(kept[key], "numel")]
    return {"state": _fingerprint(tensors), **draws.fingerprints()}


def _fingerprint(tensors):
    """Return a hash of tensors. Returns None in later steps if hashing has taken more than a tenth of the time."""
    began = recorder.clock()
    if state.steps >= _HASHED and not recorder.is_whole and _clock["hashing"] > 0.1 * (began - _clock["began"]):
        return None
    number = sample_rows.fingerprint(tensors)
    _clock["hashing"] += recorder.clock() - began
    return number


def _last():
    if state.optimizers:
        recorder.emit("weights", weights=sample_rows.fingerprint(state.parameters()))
