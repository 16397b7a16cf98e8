"""What one training step of one process is made of: what a prediction for more processes starts from.

The parts of a step, when each gradient is there, and how long a step of half the batch takes: that is what the work of
a step shares out, and what it does not. It is measured with hooks that are removed, in the warm-up, and what it trains
is undone with the rest of the warm-up. Of a script only the gradients are counted, when its optimizer takes its first
step.
"""

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from trainkit.event_log import EventLog
from trainkit.run import Run
from trainkit.sharding import Any_Batch

PROFILE = "step_profile"
"""The event's key."""
FIRST_BUCKET, BUCKET = 2**20, 25 * 2**20
"""Bytes from which on DistributedDataParallel closes its first bucket, and the others (torch's defaults)."""
TRIES = 2
MOST_LISTED = 40
"""Buckets and shapes that the event holds; more are merged, so that it stays below the 4 KB of a line."""


def report_step(run: Run, model: nn.Module, step: Callable[[Any_Batch], object], batch: Any_Batch) -> None:
    """Time steps of a whole batch and of its half, and report `step_profile`; of several processes nothing.

    Args:
        run: of one process with one device.
        model: what is trained; DDP may be around it.
        step: one update on a batch.
        batch: as large as those of the training.
    """
    if run.world_size > 1 or run.devices > 1 or batch.samples < 2:  # no half of one
        return
    whole = [profile(run.device, model, lambda: step(batch)) for _ in range(TRIES)]
    half = dataclasses.replace(batch.part(range(batch.samples // 2)), global_samples=batch.samples // 2)
    seconds_of_half = min(profile(run.device, model, lambda: step(half)).seconds for _ in range(TRIES))
    best = min(whole, key=lambda step: step.seconds)
    sent = best.ddp.module.buffers() if best.ddp and best.ddp.broadcast_buffers else []  # before each forward pass
    run.log.point(
        PROFILE,
        {
            "seconds": best.seconds,
            "samples": batch.samples,
            "half_seconds": seconds_of_half,
            "half_samples": half.samples,
            "forward_share": best.forward_share,
            "backward_share": best.backward_share,
            "ddp": best.ddp is not None,
            "broadcast_bytes": sum(buffer.nbytes for buffer in sent),
            **gradients_of([parameter for parameter in model.parameters() if parameter.requires_grad]),
            "buckets": shortened(buckets(best.gradients)),
        },
    )


@dataclasses.dataclass(frozen=True)
class Profile:
    """One step: its seconds of computing, the shares of it that forward and backward took, and when gradients came.

    `gradients` are in the order in which they came: bytes, and the share of backward at which each was there. `ddp` is
    the DistributedDataParallel that the step went through, if any.
    """

    seconds: float
    forward_share: float
    backward_share: float
    gradients: list[tuple[int, float]]
    ddp: DistributedDataParallel | None


def profile(device: torch.device, model: nn.Module, call: Callable[[], object]) -> Profile:
    """Take one step of a model and time it."""
    clock = _Clock(device)
    forward: list[Any] = []
    last: dict[Tensor, Any] = {}
    ddp: list[DistributedDataParallel] = []

    def gradient(parameter: Tensor) -> None:
        last.pop(parameter, None)  # of a batch in parts the last one counts: then gradients are exchanged
        last[parameter] = clock.mark()

    def look(module: nn.Module, _: object) -> None:
        if isinstance(module, DistributedDataParallel):
            ddp.append(module)

    handles = [register_module_forward_pre_hook(look)]
    handles.append(model.register_forward_hook(lambda *_: forward.append(clock.mark())))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    handles += [parameter.register_post_accumulate_grad_hook(gradient) for parameter in trained]
    try:
        began = clock.mark()
        call()
        ended = clock.mark()
    finally:
        for handle in handles:
            handle.remove()
    seconds = clock.between(began, ended)
    if not forward or not last:
        return Profile(seconds, 0.0, 0.0, [], None)
    computed = clock.between(began, forward[-1])
    ready = [(parameter.nbytes, clock.between(forward[-1], mark)) for parameter, mark in last.items()]
    backward = ready[-1][1]
    came = [(size, passed / backward if backward else 1.0) for size, passed in ready]
    return Profile(seconds, computed / seconds, backward / seconds, came, ddp[-1] if ddp else None)


class _Clock:
    """Marks by events in the stream in which the process computes on a GPU; on a CPU by its own time.

    So a step that other work on the machine has interrupted counts as if it had not.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def mark(self) -> Any:
        """Return the moment that the device has reached."""
        if self._device.type != "cuda":
            return time.process_time() / torch.get_num_threads()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def between(self, first: Any, last: Any) -> float:
        """Return the seconds between two marks."""
        if self._device.type != "cuda":
            return float(last - first)
        last.synchronize()
        return float(first.elapsed_time(last)) / 1000


def watch_optimizer(log: EventLog) -> Callable[[], None]:
    """Report the gradients of a script when an optimizer takes its first step; return what stops waiting for it."""

    def look(optimizer: Optimizer, *_: object) -> None:
        handle.remove()
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        log.point(PROFILE, gradients_of([parameter for parameter in parameters if parameter.grad is not None]))

    handle = register_optimizer_step_pre_hook(look)
    return handle.remove


def gradients_of(trained: Sequence[Tensor]) -> dict[str, Any]:
    """Count the gradients of parameters: tensors, bytes, and the matrices among them as [rows, columns, count].

    A tensor of more dimensions is the matrix that a low-rank method makes of it: its first dimension by all others.
    """
    matrices = Counter(
        (tensor.shape[0], tensor.numel() // tensor.shape[0])
        for tensor in trained
        if tensor.dim() > 1 and tensor.numel()
    )
    listed = [[*shape, count] for shape, count in matrices.most_common(MOST_LISTED)]
    return {
        "gradient_tensors": len(trained),
        "gradient_bytes": sum(tensor.nbytes for tensor in trained),
        "element_bytes": max((tensor.element_size() for tensor in trained), default=4),
        "matrices": listed,
    }


def buckets(gradients: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Put gradients into the buckets of DDP, as it rebuilds them after the first step: bytes, and when each is full.

    Source: torch/csrc/distributed/c10d/reducer.cpp, `compute_bucket_assignment_by_size`.
    """
    found: list[tuple[int, float]] = []
    size = 0
    for count, (own, share) in enumerate(gradients, 1):
        size += own
        if size >= (BUCKET if found else FIRST_BUCKET) or count == len(gradients):
            found.append((size, share))
            size = 0
    return found


def shortened(found: list[tuple[int, float]]) -> list[list[float]]:
    """Merge neighbouring buckets until there are few enough for one event."""
    together = -(-len(found) // MOST_LISTED) or 1
    parts = [found[start : start + together] for start in range(0, len(found), together)]
    return [[sum(size for size, _ in part), round(part[-1][1], 4), len(part)] for part in parts]
