"""Exchanges of gradients by DistributedDataParallel, unchanged or rounded to 16 bits."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from trainkit.communication.exchange import Exchange, require_type
from trainkit.run import Run

_HALF: dict[str, tuple[torch.dtype, Callable[..., Future[Tensor]]]] = {
    "fp16": (torch.float16, fp16_compress_hook),
    "bf16": (torch.bfloat16, bf16_compress_hook),
}


class OverDdp(Exchange):
    """Averages gradients during the backward pass."""

    def __init__(self, run: Run, model: nn.Module) -> None:
        super().__init__(run)
        devices = [run.device] if run.device.type == "cuda" else None
        # Integer buffers, such as BERT's positions, are the same on all ranks.
        differ = any(buffer.is_floating_point() for buffer in model.buffers())
        # Gradients are views of the exchanged buckets, so they are not copied there and back.
        self._ddp = DistributedDataParallel(
            model, device_ids=devices, broadcast_buffers=differ, gradient_as_bucket_view=True
        )
        self.model = self._ddp
        self._buffers = sum(buffer.nbytes for buffer in model.buffers()) if differ else 0

    def stepped(self) -> None:
        """Count a step of the optimizer and its broadcast buffers."""
        super().stepped()
        self.traffic.broadcast_bytes += self._buffers
        self.traffic.exchanges += bool(self._buffers)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Bypass DistributedDataParallel in a block, because its hooks wait for its forward pass."""
        self.model = self._ddp.module
        try:
            yield
        finally:
            self.model = self._ddp

    def _apart(self) -> AbstractContextManager[Any]:
        return self._ddp.no_sync()


class PlainDdp(OverDdp):
    """DistributedDataParallel without a communication hook."""

    name = "ddp"

    def stepped(self) -> None:
        """Count a step and the gradients that were exchanged for it."""
        super().stepped()
        trained = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
        self.traffic.reduced_bytes += sum(parameter.nbytes for parameter in trained)

    def report(self) -> None:
        """Report the mean bytes per step, with the number of DDP's buckets."""
        known = self._ddp._get_ddp_logging_data()  # noqa: SLF001 - no public API tells the buckets
        sizes = str(known.get("rebuilt_bucket_sizes") or known.get("bucket_sizes") or "")
        self.traffic.exchanges += self.traffic.steps * len(sizes.split(","))
        super().report()


class HalfPrecision(OverDdp):
    """Rounds gradients to 16 bits and sums them in that type, by torch's own hooks."""

    def __init__(self, run: Run, model: nn.Module, name: str) -> None:
        self.name = name
        dtype, hook = _HALF[name]
        require_type(run, dtype, name)
        super().__init__(run, model)

        def counted(group: None, bucket: dist.GradBucket) -> Future[Tensor]:  # type: ignore[name-defined]
            self.traffic.reduced(bucket.buffer().numel() * dtype.itemsize)
            return hook(group, bucket)

        self._ddp.register_comm_hook(None, counted)
