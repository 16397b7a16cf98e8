"""Model FLOPs utilization (MFU): the FLOPs of a training over the measured peak of its devices.

MFU as in Chowdhery et al., PaLM (2022), appendix B. torch's counter counts a step's FLOPs in matrix products,
convolutions and attention. The peak is measured by a matrix product on the training's devices, with its threads and
data type. An addition and a multiplication are two FLOPs.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils.flop_counter import FlopCounterMode

from trainkit import distributed
from trainkit.run import Run

SIZES = {"cpu": 1024, "cuda": 8192}
"""Rows and columns of the matrices, large enough for the peak; a product takes about 20 ms on one CPU core."""
_CHUNK_SECONDS = 0.02


class Work:
    """The FLOPs per unit of this process's work, and the peak of its devices.

    A unit is whatever the FLOPs of a batch are proportional to: a sample, or a position of a padded batch.
    """

    def __init__(self, run: Run) -> None:
        self.flops_per_unit = 0.0  # of a training step, forward and backward; 0 if not counted
        self.peak = 0.0  # FLOPs per second of all devices of this process together; 0 if not measured
        self._run = run

    def measure_peak(self, dtype: torch.dtype, seconds: float) -> None:
        """Measure the peak of each device for products of this type, and report `matmul_peak`.

        `seconds` is the time for all devices together; 0 skips the measurement. Device memory is freed afterwards.
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
        """Count the FLOPs of a block, one step on `units` units, and report `step_flops`.

        The block's results do not change. Work in threads that the block starts is not counted.
        """
        with FlopCounterMode(display=False) as counter:
            yield
        total = counter.get_total_flops()
        self.flops_per_unit = total / units if units else 0.0
        self._run.log.point("step_flops", total, units=units, counter="torch.utils.flop_counter")

    def rates(self, units: float, seconds: float) -> dict[str, float]:
        """Return the achieved and the peak FLOPs per second of all ranks; {} if a rank lacks a figure.

        `units` and `seconds` belong to this rank's training; the slowest rank's time counts. All ranks must call this.
        """
        known = self.flops_per_unit > 0 and self.peak > 0
        done, peak, ranks = distributed.total(self.flops_per_unit * units, self.peak, known)
        (slowest,) = distributed.largest([seconds])
        if int(ranks) < self._run.world_size:
            return {}
        return {"flops_per_second": done / slowest, "peak_flops_per_second": peak}


def matmul_peak(device: torch.device, dtype: torch.dtype, seconds: float) -> float:
    """Return the peak FLOPs per second of products of two square matrices; 0 if memory does not suffice.

    TF32 is allowed if any product of the training may use it, so that no utilization is overstated.
    """
    size = SIZES[device.type]
    own = torch.Generator(device).manual_seed(0)  # leave the training's random numbers alone
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
    """Multiply for `seconds` after a warm-up product; return the best rate of any short stretch."""
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
