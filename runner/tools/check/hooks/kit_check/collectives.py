"""Sees process groups and collectives."""

import functools

from kit_check import draws, replay
from kit_check.recorder import recorder

_NAMES = (
    "all_reduce", "reduce", "broadcast", "all_gather", "gather", "all_gather_into_tensor", "reduce_scatter",
    "reduce_scatter_tensor", "barrier", "all_gather_object", "gather_object", "broadcast_object_list", "scatter",
    "all_to_all", "all_to_all_single", "send", "recv", "isend", "irecv",
)  # fmt: skip
_inside = []


def of_torch(torch):
    """Put the hooks on torch.distributed."""
    import torch.distributed as module

    if not module.is_available():
        return
    from torch.distributed import distributed_c10d

    for name in _NAMES:
        if hasattr(module, name):
            watched = _watched(torch, name, getattr(module, name))
            setattr(module, name, watched)
            setattr(distributed_c10d, name, watched)
    init = module.init_process_group

    @functools.wraps(init)
    def init_process_group(*args, **kwargs):
        result = init(*args, **kwargs)
        with recorder.guarded():
            recorder.be(module.get_rank(), module.get_world_size())
            recorder.emit("group", place=recorder.place())
            draws.seed_rank(torch, module.get_rank())
        return result

    destroy = module.destroy_process_group

    @functools.wraps(destroy)
    def destroy_process_group(*args, **kwargs):
        with recorder.guarded():
            recorder.nearly_end()  # with Gloo, torch 2.3 may hang in it
        return destroy(*args, **kwargs)

    module.init_process_group = distributed_c10d.init_process_group = init_process_group
    module.destroy_process_group = distributed_c10d.destroy_process_group = destroy_process_group


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
