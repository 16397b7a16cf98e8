"""Exchanges of gradients, by DistributedDataParallel: as they are, rounded, or approximated."""

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
from trainkit.communication.power_sgd import PowerSgd
from trainkit.communication.shared_memory import SharedMemory
from trainkit.distributed import agree, fingerprint, largest
from trainkit.errors import Refusal
from trainkit.run import Run
from trainkit.time_use import EXCHANGE

_HALF: dict[str, tuple[torch.dtype, Callable[..., Future[Tensor]]]] = {
    "fp16": (torch.float16, fp16_compress_hook),
    "bf16": (torch.bfloat16, bf16_compress_hook),
}
DRIFT = 1e-3
"""How far parameters may drift apart by rounding in an epoch, relative to the largest of their tensor."""


class OverDdp(Exchange):
    """Gradients that are averaged during the backward pass; the options are DistributedDataParallel's."""

    def __init__(self, run: Run, model: nn.Module, **options: Any) -> None:
        super().__init__(run)
        devices = [run.device] if run.device.type == "cuda" else None
        # Whole numbers, as those that count BERT's positions, are the same on all ranks.
        differ = any(buffer.is_floating_point() for buffer in model.buffers())
        # Gradients lie in the buckets that are exchanged: none is copied there and back.
        self._ddp = DistributedDataParallel(
            model, device_ids=devices, broadcast_buffers=differ, gradient_as_bucket_view=True, **options
        )
        self.model = self._ddp
        self._buffers = sum(buffer.nbytes for buffer in model.buffers()) if differ else 0

    def stepped(self) -> None:
        """Note that the optimizer has taken a step."""
        super().stepped()
        self.traffic.broadcast_bytes += self._buffers
        self.traffic.exchanges += bool(self._buffers)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let the steps in a block go past DistributedDataParallel, whose hooks wait for its forward pass."""
        self.model = self._ddp.module
        try:
            yield
        finally:
            self.model = self._ddp

    def _apart(self) -> AbstractContextManager[Any]:
        return self._ddp.no_sync()


class PlainDdp(OverDdp):
    """DistributedDataParallel as it is, without a hook."""

    name = "ddp"

    def stepped(self) -> None:
        """Count the gradients, which are exchanged in a few buckets."""
        super().stepped()
        trained = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
        self.traffic.reduced_bytes += sum(parameter.nbytes for parameter in trained)

    def report(self) -> None:
        """Report the mean bytes of a step."""
        known = self._ddp._get_ddp_logging_data()  # noqa: SLF001 - the only place that knows the buckets
        sizes = str(known.get("rebuilt_bucket_sizes") or known.get("bucket_sizes") or "")
        self.traffic.exchanges += self.traffic.steps * len(sizes.split(","))
        super().report()


class HalfPrecision(OverDdp):
    """Gradients that are rounded to 16 bits and added up so, by torch's own hooks."""

    def __init__(self, run: Run, model: nn.Module, name: str) -> None:
        self.name = name
        dtype, hook = _HALF[name]
        require_type(run, dtype, name)
        super().__init__(run, model)

        def counted(group: None, bucket: dist.GradBucket) -> Future[Tensor]:  # type: ignore[name-defined]
            self.traffic.reduced(bucket.buffer().numel() * dtype.itemsize)
            return hook(group, bucket)

        self._ddp.register_comm_hook(None, counted)


class OneMachine(OverDdp):
    """Gradients that are averaged through the memory of one machine."""

    name = "shared-memory"

    def __init__(self, run: Run, model: nn.Module) -> None:
        if run.device.type != "cpu":
            raise Refusal("--communication shared-memory is for CPUs, and on GPUs NCCL does it by itself: choose ddp")
        self._memory = SharedMemory(run, _bytes(model))
        super().__init__(run, model, bucket_cap_mb=_one_bucket(model))
        self._ddp.register_comm_hook(None, self._average)

    def _average(self, _: None, bucket: dist.GradBucket) -> Future[Tensor]:  # type: ignore[name-defined]
        values = bucket.buffer()
        self.traffic.reduced(values.nbytes)
        with self._run.time_use.within(EXCHANGE):
            self._memory.average(values)
        done: Future[Tensor] = Future()
        done.set_result(values)
        return done


class LowRank(OverDdp):
    """Gradients that are approximated by matrices of a low rank: PowerSGD."""

    name = "powersgd"

    def __init__(self, run: Run, model: nn.Module, rank: int, seed: int) -> None:
        self._compressor = PowerSgd(model.parameters(), rank, seed, self._average)
        if not self._compressor.compressed:
            raise Refusal(
                f"--powersgd-rank {rank}: no gradient of this model becomes smaller by it; take at most"
                f" {self._compressor.highest_rank}"
                if self._compressor.highest_rank
                else "--communication powersgd: this model has no matrix whose gradient becomes smaller by it"
            )
        super().__init__(run, model, bucket_cap_mb=_one_bucket(model))
        self._ddp.register_comm_hook(None, self._compressor.hook)

    def synchronise(self) -> None:
        """Give all ranks rank 0's parameters if their processors round unlike.

        Each rank multiplies the averaged factors itself, so unlike processors let the parameters drift apart, in the
        last bits of each step.

        Raises:
            RuntimeError: they differ by more than that.
        """
        parameters, furthest = [parameter.detach() for parameter in self.model.parameters()], 0.0
        with self._run.exchanging():  # to hash them takes longer than to compare the hashes
            if agree(fingerprint(parameters)):
                return
            for own in parameters:
                before, scale = own.clone(), own.abs().max().clamp(min=1e-3)
                dist.broadcast(own, src=0)
                furthest = max(furthest, float((own - before).abs().max() / scale))
            [furthest] = largest([furthest])
        if not furthest <= DRIFT:
            raise RuntimeError(
                f"the parameters of the ranks differ by {furthest:.2g} of their largest, which is no rounding"
            )
        self.traffic.aligned += 1

    def restart(self) -> None:
        """Forget all steps, and what their approximations lacked."""
        super().restart()
        self._compressor.restart()

    def _average(self, values: Tensor) -> None:
        """Replace values by their mean over the ranks."""
        self.traffic.reduced(values.nbytes)
        values.div_(self._run.world_size)
        with self._run.time_use.within(EXCHANGE):
            dist.all_reduce(values)


def _bytes(model: nn.Module) -> int:
    return sum(parameter.nbytes for parameter in model.parameters())


def _one_bucket(model: nn.Module) -> int:
    """Return DDP's `bucket_cap_mb` for a hook that exchanges before it returns: nothing overlaps with backward then."""
    return 1 + _bytes(model) // 2**20
