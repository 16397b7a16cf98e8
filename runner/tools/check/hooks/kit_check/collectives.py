"""Hooks for process groups, collectives and DDP communication hooks."""

import functools

from kit_check import draws, replay
from kit_check.recorder import recorder
from kit_check.state import state

_TORCHS = "torch.distributed.algorithms.ddp_comm_hooks"
_HARMLESS = f"{_TORCHS}.default_hooks"
"""The module of torch whose hooks only average gradients, some in half precision."""
_MOST_KEPT = 100

_NAMES = (
    "all_reduce", "reduce", "broadcast", "all_gather", "gather", "all_gather_into_tensor", "reduce_scatter",
    "reduce_scatter_tensor", "barrier", "all_gather_object", "gather_object", "broadcast_object_list", "scatter",
    "all_to_all", "all_to_all_single", "send", "recv", "isend", "irecv",
)  # fmt: skip
_inside = []


def of_torch(torch):
    """Install hooks on torch.distributed."""
    import torch.distributed as module

    if not module.is_available():
        return
    from torch.distributed import distributed_c10d

    for name in _NAMES:
        if hasattr(module, name):
            watched = _watched(torch, name, getattr(module, name))
            setattr(module, name, watched)
            setattr(distributed_c10d, name, watched)

    def begun(*args, **kwargs):
        recorder.be(module.get_rank(), module.get_world_size())
        recorder.emit("group")
        draws.seed_rank(torch, module.get_rank())

    def is_over(*args, **kwargs):
        recorder.sum_up("destroy")  # before the call, since torch 2.3 with Gloo may hang in it

    recorder.hook([module, distributed_c10d], "init_process_group", after=begun)
    recorder.hook([module, distributed_c10d], "destroy_process_group", is_over)
    from torch.nn.parallel import DistributedDataParallel

    register = DistributedDataParallel.register_comm_hook

    @functools.wraps(register)
    def register_comm_hook(self, kept, hook):
        with recorder.guarded():
            name = getattr(hook, "__name__", type(hook).__name__)
            begins = getattr(kept, "start_powerSGD_iter", 0)
            if begins < _MOST_KEPT:
                state.kept = max(state.kept, begins + 2)
            if hook.__module__ != _HARMLESS or "wrapper" in name:  # a wrapper may call any hook
                lossy = any(of.__module__.startswith(_TORCHS) for of in (hook, type(kept)))
                recorder.emit("comm_hook", name=name, lossy=lossy, begins=begins, place=recorder.place())
        # In a replay, gradients are the reference, which no hook may change.
        return None if recorder.mode == "replay" else register(self, kept, hook)

    DistributedDataParallel.register_comm_hook = register_comm_hook


def _watched(torch, name, function):
    @functools.wraps(function)
    def collective(*args, **kwargs):
        if _inside or not recorder.is_here:
            return function(*args, **kwargs)
        _inside.append(name)
        tensor = None
        try:
            with recorder.guarded():
                recorder.emit("waits", name=name, place=recorder.place())
                tensor = next((value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)), None)
            result = function(*args, **kwargs)
        finally:
            _inside.pop()
        with recorder.guarded():
            recorder.emit(
                "collective",
                name=name,
                elements=0 if tensor is None else tensor.numel(),
                half=tensor is not None and tensor.dtype in (torch.float16, torch.bfloat16),
                after=None if kwargs.get("async_op") else _values(tensor),
                gradient=replay.is_gradient(tensor),
                place=recorder.place(),
            )
        return result

    return collective


def _values(tensor):
    small = tensor is not None and tensor.numel() <= 8 and not tensor.is_complex()
    return tensor.detach().double().flatten().tolist() if small else None
