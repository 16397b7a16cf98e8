"""The ring all-reduce by hand: what the library does inside, shown with sends and receives alone.

Each rank talks to its two neighbours only. The tensor is cut into one chunk a rank. In the first n - 1
steps every chunk travels once around the ring and is added to on its way, so that each rank ends with one
whole sum; in the next n - 1 steps the sums travel around. So a rank sends 2 (n - 1) / n of the tensor,
however many ranks there are. Shown, never used for training: `dist.all_reduce` knows the hardware.
"""

import torch.distributed as dist
from torch import Tensor


def ring_all_reduce(tensor: Tensor, scratch: Tensor) -> None:
    """Replace a contiguous tensor by its sum over all ranks.

    Args:
        tensor: of any shape; its number of elements need not divide by the number of ranks.
        scratch: as many elements, of the same type and device; what it holds is lost.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(ranks)  # near-equal; some are empty if there are fewer elements
    arriving = scratch.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        gone, here = (rank - step) % ranks, (rank - step - 1) % ranks
        exchange(chunks[gone], arriving[here])
        chunks[here].add_(arriving[here])
    for step in range(ranks - 1):
        gone, here = (rank - step + 1) % ranks, (rank - step) % ranks
        exchange(chunks[gone], chunks[here])


def exchange(outgoing: Tensor, incoming: Tensor) -> None:
    """Send to the next rank of the ring while receiving from the one before.

    A plain send followed by a recv would hang as soon as every rank waits for its neighbour to receive. Two
    ranks of NCCL must open their link together, which the batch sees to; an empty message is not sent.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    batch = []
    if outgoing.numel():
        batch.append(dist.P2POp(dist.isend, outgoing, (rank + 1) % ranks))
    if incoming.numel():
        batch.append(dist.P2POp(dist.irecv, incoming, (rank - 1) % ranks))
    for work in dist.batch_isend_irecv(batch) if batch else []:
        work.wait()
