"""Sees what goes into models and losses."""

import functools
import weakref
import zlib

from kit_check import replay, rows, steps
from kit_check.recorder import recorder
from kit_check.state import state

_LOSSES = (
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div",
)  # fmt: skip
_BATCH_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d")
_born = {}
_known = {}


def of_torch(torch):
    """Put the hooks on modules and losses."""
    from torch.nn.parallel import DistributedDataParallel

    module = torch.nn.Module
    call, make, wrap = module.__call__, module.__init__, DistributedDataParallel.__init__

    def __init__(self, *args, **kwargs):
        with recorder.guarded():
            if recorder.is_here and id(self) not in _born:
                forget = functools.partial(_born.pop, id(self))  # the dead reference is the default
                _born[id(self)] = (weakref.ref(self, forget), recorder.place(made=self))
        make(self, *args, **kwargs)

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

    @functools.wraps(wrap)
    def wrapped(self, module, *args, **kwargs):
        wrap(self, module, *args, **kwargs)
        with recorder.guarded():
            state.wrapped.update(module.modules())
            recorder.emit("ddp", place=recorder.place())

    module.__init__, module.__call__, DistributedDataParallel.__init__ = __init__, __call__, wrapped
    for name in _LOSSES:
        setattr(torch.nn.functional, name, _loss(torch, getattr(torch.nn.functional, name)))
    for name in ("eq", "__eq__"):
        setattr(torch.Tensor, name, _equality(torch, getattr(torch.Tensor, name)))
    torch.eq = _equality(torch, torch.eq)


def _before(torch, module, args, kwargs):
    """Write what enters a model with parameters; replace it in a replay. Return it, and the state of the noise."""
    trains = module.training and torch.is_grad_enabled()
    if id(module) not in _known:
        _known[id(module)] = weakref.ref(module)
        _describe(module, trains)
    if trains and recorder.mode == "replay":
        replay.load_weights(torch)
        args, kwargs = replay.arguments(args, kwargs)
    if trains:
        steps.watch_gradients()
    tensors = rows.tensors_in([args, kwargs])
    number = rows.rows_of(tensors)
    fields = {} if state.current is not None and not recorder.is_whole else {"hashes": rows.hashes(tensors, number)}
    taken = state.current.rows_of(tensors) if trains and state.current is not None else None
    if trains:
        replay.use_batches()
    if taken is not None:
        replay.use_rows(state.current.key, state.current.before, taken)
    if trains and state.current is None and recorder.mode != "replay":
        replay.keep_arguments(args, kwargs)
    state.forward_rows = number
    recorder.emit(
        "forward",
        train=trains,
        bare=module in state.wrapped,
        rows=number,
        taken=taken,
        step=state.steps,
        run=state.current.number if state.current is not None else None,
        loops=_loops() if state.current is None and trains else None,
        half=torch.is_autocast_enabled()
        or torch.is_autocast_cpu_enabled()
        or next(module.parameters()).dtype in (torch.float16, torch.bfloat16),
        place=recorder.place(),
        **fields,
    )
    return args, kwargs, _noise(torch) if trains and state.steps < state.kept else None


def _noise(torch):
    number = zlib.crc32(torch.get_rng_state().numpy().tobytes())
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        number ^= zlib.crc32(torch.cuda.get_rng_state().numpy().tobytes())
    return number


def _loops():
    """Return the whole numbers among the local names of the program's frames: counters of its loops are among them."""
    import sys

    found, frame = {}, sys._getframe(2)
    while frame is not None:
        if recorder.is_own(frame.f_code.co_filename):
            for name, value in list(frame.f_locals.items()):
                if type(value) is int:
                    found.setdefault(f"{frame.f_code.co_name}.{name}", value)
        frame = frame.f_back
    return found


def _describe(module, trains):
    inner = list(module.modules())
    names = {type(part).__name__ for part in inner}
    classes = {base.__name__ for part in inner for base in type(part).__mro__}
    kinds = {type(parameter).__name__ for parameter in module.parameters()}
    shards = classes & {"FullyShardedDataParallel", "FSDPModule", "FSDP"}
    if shards or "DTensor" in kinds:
        state.is_sharded = True
    weakest = _born.get(id(module), (None, []))[1]
    bare = next((part for part in inner if part in state.wrapped), None)
    if bare is not None:
        weakest = _born.get(id(bare), (None, weakest))[1]
    trained = {id(parameter) for parameter in state.parameters()}
    recorder.emit(
        "model",
        wrapped=bare is not None,
        trained=any(id(parameter) in trained for parameter in module.parameters()),
        name=type(module).__name__,
        place=weakest,
        bare=trains and bare is None,
        batch_norm=bool(names & set(_BATCH_NORMS)),
        sharded=state.is_sharded,
        parts=any(_cuts(parameter) > bool(shards) for parameter in module.parameters()),
        parameters=sum(parameter.numel() for parameter in module.parameters()),
    )


def _cuts(parameter):
    """Return along how many dimensions of the ranks a DTensor is cut; FSDP does that along one."""
    return sum(not placement.is_replicate() for placement in getattr(parameter, "placements", ()))


def buffers():
    """Write a number for the buffers of the models, such as the running statistics of BatchNorm."""
    models = [model for reference in _known.values() if (model := reference()) is not None]
    found = [buffer for model in models for buffer in model.buffers() if buffer.is_floating_point()]
    if found:
        recorder.emit("buffers", step=state.steps, number=rows.fingerprint(found))


def _loss(torch, function):
    @functools.wraps(function)
    def loss(input, target, *args, **kwargs):
        with recorder.guarded():
            if recorder.is_here and not state.depth:
                if not torch.is_grad_enabled():
                    _count("loss", len(target) if target.dim() else 1)
                elif state.steps < state.kept:
                    if recorder.mode == "replay":
                        target = replay.target(input, target)
                    elif state.current is None:
                        replay.keep_target(target)
                    recorder.emit("loss", step=state.steps, place=recorder.place())
        return function(input, target, *args, **kwargs)

    return loss


def _equality(torch, function):
    @functools.wraps(function)
    def equality(*args, **kwargs):
        result = function(*args, **kwargs)
        if not state.depth and isinstance(result, torch.Tensor) and result.dim():
            with recorder.guarded():
                expected = getattr(state, "forward_rows", 0)
                _count("equal", expected if expected in result.shape else len(result))
        return result

    return equality


def _count(how, number):
    recorder.emit("counted", how=how, rows=number)
