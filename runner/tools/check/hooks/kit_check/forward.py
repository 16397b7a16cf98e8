"""Hooks for the inputs of models and losses."""

import functools
import sys
import weakref
import zlib

from kit_check import replay, sample_rows, steps
from kit_check.recorder import recorder
from kit_check.state import state

_LOSSES = (
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div",
)  # fmt: skip
_BATCH_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")
_born = {}
_known = {}


def of_torch(torch):
    """Install hooks on modules and losses."""
    from torch.nn.parallel import DistributedDataParallel

    call = torch.nn.Module.__call__

    def __call__(self, *args, **kwargs):
        if state.depth or not recorder.is_here or next(self.parameters(), None) is None:
            return call(self, *args, **kwargs)
        state.depth = 1
        noise = None
        try:
            with recorder.guarded():
                args, kwargs, noise = _before(torch, self, args, kwargs)
            result = call(self, *args, **kwargs)
            with recorder.guarded():
                if noise is not None and noise != _noise(torch):
                    recorder.emit("noise", step=state.steps, state=noise)
            return result
        finally:
            state.depth = 0

    torch.nn.Module.__call__ = __call__
    recorder.hook([torch.nn.Module], "__init__", _birth)
    recorder.hook([DistributedDataParallel], "__init__", after=_wrap)
    for name in _LOSSES:
        setattr(torch.nn.functional, name, _loss(torch, getattr(torch.nn.functional, name)))
    for owner, name in ((torch.Tensor, "eq"), (torch.Tensor, "__eq__"), (torch, "eq")):
        recorder.hook([owner], name, after=_equality)


def _birth(module, *args, **kwargs):
    if id(module) not in _born:
        forget = functools.partial(_born.pop, id(module))  # called with the dead reference, pop's default
        _born[id(module)] = (weakref.ref(module, forget), recorder.place(made=module))


def _wrap(_, wrapper, *args, **kwargs):
    state.wrapped.update(wrapper.module.modules())
    recorder.emit("ddp", place=recorder.place())


def _before(torch, module, args, kwargs):
    """Record a model's inputs. A replay replaces the inputs first.

    Return the inputs, and a hash of the random generators' state.
    """
    trains = module.training and torch.is_grad_enabled()
    if id(module) not in _known:
        _known[id(module)] = weakref.ref(module)
        _describe(module, trains)
    if trains and recorder.mode == "replay":
        replay.load_weights(torch)
        args, kwargs = replay.arguments(args, kwargs)
    if trains:
        steps.watch_gradients()
    tensors = sample_rows.tensors_in([args, kwargs])
    number = sample_rows.rows_of(tensors)
    is_by_hand, taken = state.current is None, None
    if trains:
        replay.use_batches()
        if is_by_hand:
            replay.keep_arguments(args, kwargs)
        elif taken := state.current.rows_of(tensors):
            replay.use_rows(state.current.key, taken)
    state.forward_rows = number
    recorder.emit(
        "forward",
        train=trains,
        bare=module in state.wrapped,
        rows=number,
        hashes=sample_rows.hashes(tensors, number) if is_by_hand or recorder.is_whole else None,
        taken=taken,
        step=state.steps,
        run=None if is_by_hand else state.current.number,
        loops=_loops() if is_by_hand and trains else None,
        half=torch.is_autocast_enabled()
        or torch.is_autocast_cpu_enabled()
        or next(module.parameters()).dtype in (torch.float16, torch.bfloat16),
        place=recorder.place(),
    )
    return args, kwargs, _noise(torch) if trains and state.steps < state.kept else None


def _noise(torch):
    number = zlib.crc32(torch.get_rng_state().numpy().tobytes())
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        number ^= zlib.crc32(torch.cuda.get_rng_state().numpy().tobytes())
    return number


def _loops():
    counters, frame = {}, sys._getframe(2)
    while frame is not None:
        if recorder.is_own(frame.f_code.co_filename):
            for name, value in list(frame.f_locals.items()):
                if type(value) is int:
                    counters.setdefault(f"{frame.f_code.co_name}.{name}", value)
        frame = frame.f_back
    return counters


def _describe(module, trains):
    inner = list(module.modules())
    classes = {base.__name__ for part in inner for base in type(part).__mro__}
    kinds = {type(parameter).__name__ for parameter in module.parameters()}
    shards = classes & {"FullyShardedDataParallel", "FSDPModule", "FSDP"}
    if shards or "DTensor" in kinds:
        state.is_sharded = True
    bare = next((part for part in inner if part in state.wrapped), None)
    birth = _born.get(id(module if bare is None else bare)) or _born.get(id(module))
    trained = {id(parameter) for parameter in state.parameters()}
    recorder.emit(
        "model",
        wrapped=bare is not None,
        trained=any(id(parameter) in trained for parameter in module.parameters()),
        name=type(module).__name__,
        place=birth[1] if birth else [],
        batch_norm=any(type(part).__name__.endswith(_BATCH_NORMS) for part in inner),
        sharded=state.is_sharded,
        parts=any(_cuts(parameter) > bool(shards) for parameter in module.parameters()),
        parameters=sum(parameter.numel() for parameter in module.parameters()),
    )


def _cuts(parameter):
    """Return the number of device-mesh dimensions along which a DTensor is sharded. With FSDP alone, it is one."""
    return sum(not placement.is_replicate() for placement in getattr(parameter, "placements", ()))


def buffers():
    """Record a hash of the models' buffers, such as BatchNorm's running statistics."""
    models = [model for reference in _known.values() if (model := reference()) is not None]
    tensors = [buffer for model in models for buffer in model.buffers() if buffer.is_floating_point()]
    if tensors:
        recorder.emit("buffers", step=state.steps, number=sample_rows.fingerprint(tensors))


def _loss(torch, function):
    @functools.wraps(function)
    def loss(input, target, *args, **kwargs):
        with recorder.guarded():
            if recorder.is_here and not state.depth:
                if not torch.is_grad_enabled():
                    recorder.emit("counted", how="loss", rows=len(target) if target.dim() else 1)
                elif state.steps < state.kept:
                    if recorder.mode == "replay":
                        target = replay.target(input, target)
                    elif state.current is None:
                        replay.keep_target(target)
                    recorder.emit("loss", place=recorder.place())
        return function(input, target, *args, **kwargs)

    return loss


def _equality(result, *args, **kwargs):
    if not state.depth and hasattr(result, "dim") and result.dim():
        number = state.forward_rows
        recorder.emit("counted", how="equal", rows=number if number in result.shape else len(result))
