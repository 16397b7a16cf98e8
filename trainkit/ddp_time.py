"""Mark when DistributedDataParallel waits for other ranks, without changes to the training program.

No communication hook is registered, so DDP's exchanges stay the same bit for bit. Autograd runs callbacks at the end of
a backward pass in the order of their registration. DDP registers a callback when its last bucket is ready, and waits in
this callback for all buckets. Callbacks before and after DDP's measure the exchange that backward did not hide. Source:
torch/csrc/distributed/c10d/reducer.cpp, `mark_variable_ready`, and torch/csrc/autograd/engine.cpp,
`exec_post_processing`.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.autograd import Variable
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from trainkit.time_use import COMPUTE, EXCHANGE, TimeUse

_CALLS = 1_000
"""Number of module calls in which DDP is searched. The model's own call comes first."""


def find_ddp(time_use: TimeUse) -> Callable[[], None]:
    """Watch each DDP among the next calls of modules; return a function that stops the search."""
    left, known = [_CALLS], set[int]()

    def look(module: nn.Module, _: object) -> None:
        left[0] -= 1
        model = getattr(module, "_orig_mod", module)  # unwrap torch.compile
        if isinstance(model, DistributedDataParallel) and id(model) not in known:
            known.add(id(model))
            _Watch(model, time_use)
        if left[0] <= 0 or model is not module:
            handle.remove()

    handle = register_module_forward_pre_hook(look)
    return handle.remove


class _Watch:
    def __init__(self, ddp: DistributedDataParallel, time_use: TimeUse) -> None:
        self._ddp = ddp
        self._time_use = time_use
        self._asked = False
        trained = [parameter for parameter in ddp.parameters() if parameter.requires_grad]
        # The parameters that a pass uses are known beforehand only if the pass must use all.
        for parameter in trained if ddp.find_unused_parameters else trained[:1]:
            parameter.register_post_accumulate_grad_hook(_Hook(self.in_backward))
        ddp.register_forward_pre_hook(_Hook(self.before_forward))
        if ddp.broadcast_buffers and next(ddp.buffers(), None) is not None:
            ddp.register_forward_pre_hook(_Hook(self.before_buffers))
            ddp.module.register_forward_pre_hook(_Hook(self.after_buffers))

    def in_backward(self, _: Tensor) -> None:
        """Register a callback for the end of this backward pass, before DDP registers its own callback."""
        if self._time_use.running and not self._asked and self._ddp.require_backward_grad_sync:
            self._asked = True
            _at_end_of_backward(self._ready)

    def before_forward(self, _: nn.Module, __: object) -> None:
        """Forget an earlier registration: a failed backward pass never runs its callbacks."""
        self._asked = False

    def before_buffers(self, module: nn.Module, _: object) -> None:
        """Mark the start of the wait for rank 0's buffers."""
        if module.training and self._ddp.require_forward_param_sync:
            self._time_use.begin(EXCHANGE)

    def after_buffers(self, module: nn.Module, _: object) -> None:
        """Mark the start of the forward pass."""
        if module.training:
            self._time_use.begin(COMPUTE)

    def _ready(self) -> None:
        self._time_use.begin(EXCHANGE)
        _at_end_of_backward(self._done)  # runs after DDP's callback, which is already registered

    def _done(self) -> None:
        self._asked = False
        self._time_use.begin(COMPUTE, ends_step=True)


class _Hook:
    """A hook for this process alone: copying or pickling the module leaves a hook that does nothing."""

    def __init__(self, call: Callable[..., None] | None = None) -> None:
        self._call = call

    def __call__(self, *args: Any) -> None:
        if self._call is not None:
            self._call(*args)

    def __reduce__(self) -> tuple[type["_Hook"], tuple[()]]:
        return _Hook, ()


def _at_end_of_backward(call: Callable[[], None]) -> None:
    Variable._execution_engine.queue_callback(call)  # noqa: SLF001 - as DDP itself does
