"""PowerSGD as a communication hook: gradients are exchanged as products of two thin matrices.

Vogels, Karimireddy and Jaggi, PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization (2019),
algorithms 1 and 2: M is the gradient with the error of the step before, P = M Q is averaged and orthogonalised,
Q = Mᵀ P is averaged, P Qᵀ is the gradient, M - P Qᵀ is the next error, and Q is where the next step starts. There Q is
orthogonalised too, as in torch's hook: else a gradient of few samples would leave a Q that cannot see the next one.

torch's own hook (torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py) chains its exchanges as callbacks of
futures. Gloo runs those on its own threads, in an order that differs between ranks, and each callback waits for one
more exchange there: ranks exchange different things with each other, and die or hang. Here a bucket is exchanged by the
thread that calls the hook, before it returns, so all ranks exchange in one order.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.futures import Future

from trainkit import sharding as shards


@dataclass
class Memory:
    """What is kept of one parameter from step to step."""

    error: Tensor
    """[rows, columns], what the gradients exchanged so far lack."""
    factor: Tensor
    """Q [columns, rank]."""


class PowerSgd:
    """Averages the gradients of matrices in a low rank, and all others as they are.

    Args:
        parameters: of the model, in the same order on all ranks.
        rank: of the approximations.
        seed: of the first factors, the same on all ranks.
        average: replaces a tensor by its mean over all ranks, and returns when that is done.

    Attributes:
        compressed: how many of the parameters are approximated.
        highest_rank: from which on none would be; 0 if none is at any rank.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], rank: int, seed: int, average: Callable[[Tensor], None]
    ) -> None:
        self._rank, self._seed, self._average = rank, seed, average
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        self.highest_rank = max((_highest_rank(parameter) for parameter in trained), default=0)
        self._matrices = {
            parameter: number for number, parameter in enumerate(trained) if rank <= _highest_rank(parameter)
        }
        self.compressed = len(self._matrices)
        self._memories: dict[nn.Parameter, Memory] = {}

    def restart(self) -> None:
        """Forget what all steps left."""
        self._memories.clear()

    def hook(self, _: None, bucket: dist.GradBucket) -> Future[Tensor]:  # type: ignore[name-defined]
        """Average a bucket's gradients; for `DistributedDataParallel.register_comm_hook(None, ...)`."""
        buffer = bucket.buffer()
        with torch._C._DisableTorchDispatch():  # noqa: SLF001 - these FLOPs are not the model's: they are not counted
            self.average(bucket.parameters(), bucket.gradients())
        done: Future[Tensor] = Future(devices=[buffer.device] if buffer.is_cuda else None)
        done.set_result(buffer)
        return done

    @torch.no_grad()
    def average(self, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor]) -> None:
        """Replace gradients by their approximated means over all ranks, in two exchanges."""
        whole, memories, matrices = [], [], []
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if parameter in self._matrices:
                matrices.append(as_matrix(gradient))
                memories.append(self._memory(parameter, matrices[-1]))
            else:
                whole.append(gradient)
        # Each matrix is used twice while it is in the cache.
        left = [memory.error.add_(matrix) @ memory.factor for memory, matrix in zip(memories, matrices, strict=True)]
        averaged = self._averaged([*whole, *left])
        for gradient, mean in zip(whole, averaged, strict=False):
            gradient.copy_(mean)
        if not memories:
            return
        # Householder's way: what lacks a rank, as a gradient of zeros does, is completed to a basis.
        bases = [torch.linalg.qr(mean).Q for mean in averaged[len(whole) :]]
        factors = self._averaged([memory.error.T @ basis for memory, basis in zip(memories, bases, strict=True)])
        for memory, matrix, basis, factor in zip(memories, matrices, bases, factors, strict=True):
            memory.factor = torch.linalg.qr(factor).Q
            torch.mm(basis, factor.T, out=matrix)
            memory.error.sub_(matrix)

    def _averaged(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return the means of tensors over all ranks, in one exchange."""
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self._average(flat)
        parts = flat.split([tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def _memory(self, parameter: nn.Parameter, matrix: Tensor) -> Memory:
        memory = self._memories.get(parameter)
        if memory is None:
            draws = shards.generator(self._seed, "powersgd", self._matrices[parameter])
            factor = torch.randn(matrix.shape[1], self._rank, generator=draws)
            memory = Memory(torch.zeros(matrix.shape, dtype=matrix.dtype, device=matrix.device), factor.to(matrix))
            self._memories[parameter] = memory
        return memory


def as_matrix(tensor: Tensor) -> Tensor:
    """View a parameter's gradient as a matrix with a row for each output; a convolution's may lie channels last."""
    strides = tensor.stride()
    others = sorted(range(1, tensor.dim()), key=lambda dim: strides[dim], reverse=True)
    return tensor.permute(0, *others).view(tensor.shape[0], -1)


def _highest_rank(parameter: Tensor) -> int:
    """Return the highest rank at which two thin matrices are smaller than a parameter; 0 if it is no matrix."""
    if parameter.dim() < 2 or not parameter.numel():  # a matrix has two sides
        return 0
    rows = parameter.shape[0]
    columns = parameter.numel() // rows
    return (rows * columns - 1) // (rows + columns)
