"""Report the bytes that a step of data parallelism moves between devices, and through the busiest one.

DataParallel sends everything through the first GPU: parameters and parts of the batch out, outputs and gradients back.
In DDP each process exchanges gradients with its neighbours. The totals are similar; the busiest device differs.
"""

import copy

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from trainkit.distributed import SENT
from trainkit.run import Run


def report_ddp(run: Run, model: nn.Module, images: Tensor) -> None:
    """Count the bytes that a DDP step passes to all_reduce, on a copy of the model and outside of all clocks."""
    counted: list[int] = []

    def hook(group: None, bucket: dist.GradBucket) -> Future[Tensor]:  # type: ignore[name-defined]
        SENT.append(bucket.buffer())
        counted.append(bucket.buffer().nbytes)
        return allreduce_hook(group, bucket)  # type: ignore[arg-type]  # None is the default group

    devices = [run.device] if run.device.type == "cuda" else None
    ddp = DistributedDataParallel(copy.deepcopy(model), device_ids=devices)
    ddp.register_comm_hook(None, hook)
    ddp(images).sum().backward()
    # Rank 0's BatchNorm statistics are broadcast before each forward pass.
    report_all_reduce(run, sum(counted), sum(buffer.nbytes for buffer in model.buffers()), "counted in a step of DDP")


def report_manual(run: Run, model: nn.Module) -> None:
    """Sum the sizes of the gradients that a step passes to all_reduce."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    report_all_reduce(run, sum(gradient.nbytes for gradient in gradients), 0, "the sizes of the gradients")


def report_all_reduce(run: Run, gradients: int, buffers: int, how: str) -> None:
    """Report the traffic if `gradients` bytes are reduced around a ring and `buffers` bytes are broadcast."""
    n = run.world_size
    moved = 2 * (n - 1) * gradients + (n - 1) * buffers
    busiest = 2 * 2 * (n - 1) / n * gradients + (n - 1) * buffers
    report(run, moved, busiest, f"{how}; moved as around a ring", all_reduce_bytes=gradients, broadcast_bytes=buffers)


def report_data_parallel(run: Run, model: nn.Module, images: Tensor) -> None:
    """Compute the traffic of DataParallel, which is 0 on one device.

    Source: torch/nn/parallel/data_parallel.py: replicate, scatter and gather, and their backward passes.
    """
    outputs = copy.deepcopy(model)(images).detach()
    others = run.devices - 1
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    buffers = sum(buffer.nbytes for buffer in model.buffers())
    sent_on = [tensor.nbytes - tensor.chunk(run.devices)[0].nbytes for tensor in (images, outputs)]
    moved = others * (2 * parameters + buffers) + sent_on[0] + 2 * sent_on[1]
    report(run, moved, moved, "computed from the sizes; all of it through the first device")


def report(run: Run, moved: float, busiest: float, how: str, **more: int) -> None:
    """Report the bytes as event and metrics; `busiest` is what the busiest device sends and receives."""
    if run.first:
        devices = run.devices * run.world_size
        run.log.point("traffic", how, moved_bytes=moved, busiest_device_bytes=busiest, devices=devices, **more)
        stats = {"bytes_moved_per_step": moved, "busiest_device_bytes_per_step": busiest}
        run.log.point("tracked_stats", stats)
