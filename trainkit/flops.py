"""What a device could compute and what a training asks of it: their ratio is the model FLOPs utilization (MFU).

MFU is as in Chowdhery et al., PaLM (2022), appendix B: the FLOPs of the model's own work over the peak of the devices.
The FLOPs of a step are counted by torch's counter, which knows matrix products, convolutions and attention; the peak is
that of a matrix product, measured on the same devices with the threads and the data type of the training. An addition
and a multiplication are two FLOPs on both sides.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils.flop_counter import FlopCounterMode

from trainkit import distributed
from trainkit.run import Run

SIZES = {"cpu": 1024, "cuda": 8192}
"""Rows and columns of the matrices: large enough for the peak; on a CPU a product takes some 20 ms of one core."""
_CHUNK_SECONDS = 0.02


class Work:
    """The FLOPs of this process: how many a unit of its work has, and how many its devices could do.

    A unit is a sample, or a position of a padded batch: whatever the FLOPs of a batch grow with.
    """

    def __init__(self, run: Run) -> None:
        self.flops_per_unit = 0.0  # of a training step, forward and backward; 0 if no step was counted
        self.peak = 0.0  # FLOPs per second of all devices of this process together; 0 if it was not measured
        self._run = run

    def measure_peak(self, dtype: torch.dtype, seconds: float) -> None:
        """Measure the peak of each device for products of this type and report `matmul_peak`.

        Nothing of it is left on the devices; the seconds are for all of them together, and 0 leaves it out.
        """
        run = self._run
        devices = [torch.device("cuda", index) for index in run.cuda_devices] or [run.device]
        if seconds <= 0:
            return
        with run.phase("setup"):
            self.peak = sum(matmul_peak(device, dtype, seconds / len(devices)) for device in devices)
        name = str(dtype).removeprefix("torch.")
        size = SIZES[run.device.type]
        run.log.point("matmul_peak", self.peak, dtype=name, size=size, tf32=_tf32(), devices=len(devices))

    @contextmanager
    def counted(self, units: int) -> Iterator[None]:
        """Count the FLOPs of the block, one step on so many units, and report `step_flops`.

        What the block computes is the same as without; other threads that it starts are not seen.
        """
        with FlopCounterMode(display=False) as counter:
            yield
        total = counter.get_total_flops()
        self.flops_per_unit = total / units if units else 0.0
        self._run.log.point("step_flops", total, units=units, counter="torch.utils.flop_counter")

    def rates(self, units: float, seconds: float) -> dict[str, float]:
        """Return FLOPs per second of all ranks, those done and those possible; nothing if a rank knows too little.

        Units and seconds are those of this rank's training, which is as long as that of the slowest rank. Every rank
        has to call it.
        """
        known = self.flops_per_unit > 0 and self.peak > 0
        done, peak, ranks = distributed.total(self.flops_per_unit * units, self.peak, known)
        (slowest,) = distributed.largest([seconds])
        if int(ranks) < self._run.world_size:
            return {}
        return {"flops_per_second": done / slowest, "peak_flops_per_second": peak}


def matmul_peak(device: torch.device, dtype: torch.dtype, seconds: float) -> float:
    """Return the FLOPs per second of the fastest products of two square matrices; 0 if the memory does not suffice.

    TF32 is allowed if any product of the training may use it, so that no utilization comes out too high.
    """
    size = SIZES[device.type]
    own = torch.Generator(device).manual_seed(0)  # or the training would draw other numbers
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = _tf32()
    try:
        factors = [torch.randn(size, size, generator=own, device=device).to(dtype) for _ in range(2)]
        product = torch.empty(size, size, dtype=dtype, device=device)
        return 2 * size**3 * _products_per_second(factors, product, seconds)
    except torch.cuda.OutOfMemoryError:
        return 0.0
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
        factors, product = [], torch.empty(0)
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)


def _products_per_second(factors: list[torch.Tensor], product: torch.Tensor, seconds: float) -> float:
    """Multiply for so many seconds, after a product that is not counted; return the best rate of any short stretch."""
    on_gpu = product.device.type == "cuda"

    def stretch(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            torch.mm(factors[0], factors[1], out=product)
        if on_gpu:
            torch.cuda.synchronize(product.device)
        return time.perf_counter() - began

    end = time.perf_counter() + seconds
    with torch.no_grad():
        stretch(1)
        count = max(1, round(_CHUNK_SECONDS / stretch(1)))
        best = 0.0
        while not best or time.perf_counter() < end:
            best = max(best, count / stretch(count))
    return best


def _tf32() -> bool:
    return torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
