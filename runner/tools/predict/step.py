"""What a training step of one process is made of, as its run reported it."""

from dataclasses import dataclass
from typing import NamedTuple


class Bucket(NamedTuple):
    """Gradients that are exchanged together: their bytes, when they are there, and in how many calls.

    `ready` is the share of the backward pass that is over by then.
    """

    size: float
    ready: float
    calls: int = 1


class Matrix(NamedTuple):
    """Gradients of one shape, and how many there are."""

    rows: int
    columns: int
    many: float


@dataclass(frozen=True)
class Step:
    """The parts of a step that do not depend on where it runs.

    Attributes:
        samples: that one process takes in one step.
        buckets: of DistributedDataParallel, in the order in which they are full.
        gradient_bytes: of all of them.
        element_bytes: of one number in them.
        matrices: their shapes, as a low-rank method sees them.
        broadcast_bytes: of the buffers that rank 0 sends before each forward pass.
        in_backward: whether the exchange goes on while backward does; else it begins when backward is over.
        parts: whose gradients such a step adds up (`--accumulate`).
        steps: of an epoch of one process; at its end parameters are exchanged in any case. 0 if nobody knows.
    """

    samples: int
    buckets: tuple[Bucket, ...]
    gradient_bytes: float
    element_bytes: int = 4
    matrices: tuple[Matrix, ...] = ()
    broadcast_bytes: float = 0.0
    in_backward: bool = True
    parts: int = 1
    steps: float = 0.0
