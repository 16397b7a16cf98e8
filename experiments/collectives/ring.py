"""A ring all-reduce of sends and receives, to show what the library does inside.

The tensor is split into one chunk per rank. In the first n - 1 steps each chunk travels around the ring and
accumulates, so that each rank ends with the sum of one chunk; in the next n - 1 steps the sums travel around. So a rank
sends 2 (n - 1) / n of the tensor for any n. Train with `dist.all_reduce`, which is adapted to the hardware.
"""

import torch.distributed as dist
from torch import Tensor


def ring_all_reduce(tensor: Tensor, scratch: Tensor) -> None:
    """Replace a contiguous tensor of any shape by its sum over all ranks, and overwrite `scratch`, a tensor like it."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(ranks)  # near-equal; some are empty if there are fewer elements than ranks
    arriving = scratch.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        gone, here = (rank - step) % ranks, (rank - step - 1) % ranks
        exchange(chunks[gone], arriving[here])
        chunks[here].add_(arriving[here])
    for step in range(ranks - 1):
        gone, here = (rank - step + 1) % ranks, (rank - step) % ranks
        exchange(chunks[gone], chunks[here])


def exchange(outgoing: Tensor, incoming: Tensor) -> None:
    """Send to the next rank of the ring while receiving from the previous one.

    A send followed by a recv would deadlock when every rank waits for its neighbour to receive. NCCL ranks must open
    their link at the same time, which the batch ensures.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    batch = []
    if outgoing.numel():
        batch.append(dist.P2POp(dist.isend, outgoing, (rank + 1) % ranks))
    if incoming.numel():
        batch.append(dist.P2POp(dist.irecv, incoming, (rank - 1) % ranks))
    for work in dist.batch_isend_irecv(batch) if batch else []:
        work.wait()
