"""Sees what changes how ranks work together: hooks on the way of the gradients, averaged weights, and Join."""

import functools

from kit_check.recorder import recorder
from kit_check.state import state

_TORCHS = "torch.distributed.algorithms.ddp_comm_hooks"
_HARMLESS = f"{_TORCHS}.default_hooks"
"""Its hooks average, some in half precision."""
_MOST_KEPT = 100


def of_torch(torch):
    """Put the hook on the hooks of DistributedDataParallel."""
    from torch.nn.parallel import DistributedDataParallel

    register = DistributedDataParallel.register_comm_hook

    @functools.wraps(register)
    def register_comm_hook(self, kept, hook):
        with recorder.guarded():
            name = getattr(hook, "__name__", type(hook).__name__)
            begins = getattr(kept, "start_powerSGD_iter", 0)
            if begins < _MOST_KEPT:
                state.kept = max(state.kept, begins + 2)
            if hook.__module__ != _HARMLESS or "wrapper" in name:  # it may wrap any hook
                lossy = any(of.__module__.startswith(_TORCHS) for of in (hook, type(kept)))
                recorder.emit("comm_hook", name=name, lossy=lossy, begins=begins, place=recorder.place())
        # What the gradients of the ranks are compared with goes through no hook.
        return None if recorder.mode == "replay" else register(self, kept, hook)

    DistributedDataParallel.register_comm_hook = register_comm_hook


def of_class(name):
    """Return a hook for a module that notes where an object of one of its classes is made."""

    def put(module):
        kind = getattr(module, name)
        make = kind.__init__

        @functools.wraps(make)
        def __init__(self, *args, **kwargs):
            with recorder.guarded():
                recorder.emit("method", name=type(self).__name__, place=recorder.place())
            make(self, *args, **kwargs)

        kind.__init__ = __init__

    return put
