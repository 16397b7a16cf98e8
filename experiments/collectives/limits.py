"""What cannot be measured: senseless sizes, too few ranks, too little memory."""

import os
from argparse import Namespace

import torch

from experiments.collectives.operations import ELEMENT_BYTES, OPERATIONS
from trainkit import distributed
from trainkit.errors import Refusal
from trainkit.run import Run


def require_sense(args: Namespace, ranks: int) -> None:
    """Refuse senseless arguments, before the process group is set up."""
    names = [] if args.operations == "all" else args.operations.split(",")
    unknown = [name for name in names if name not in OPERATIONS]
    complaints = [
        (unknown, f"no operation '{', '.join(unknown)}': there are {', '.join(OPERATIONS)}"),
        (args.min_bytes < ELEMENT_BYTES, f"--min-bytes {args.min_bytes}: at least {ELEMENT_BYTES}, one number"),
        (args.max_bytes < args.min_bytes, f"--max-bytes {args.max_bytes}: less than --min-bytes {args.min_bytes}"),
        (
            args.max_bytes < ELEMENT_BYTES * ranks,
            f"--max-bytes {args.max_bytes}: less than {ELEMENT_BYTES} for each of {ranks} ranks",
        ),
    ]
    for wrong, message in complaints:
        if wrong:
            raise Refusal(message)


def require_ranks(name: str, ranks: int) -> None:
    """Refuse an operation that needs more ranks than there are."""
    if ranks < OPERATIONS[name].least_ranks:
        raise Refusal(f"it needs {OPERATIONS[name].least_ranks} ranks and there is {ranks}")


def require_room(run: Run, size: int) -> None:
    """Refuse, on all ranks together, buffers that some node has no memory for."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") // run.place.local_world_size
    device = distributed.device_of_messages()
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
    [short] = distributed.total(2 * size > free)
    if short:
        raise Refusal(f"--max-bytes {size}: {short:.0f} of {run.world_size} ranks have no room for two such buffers")


def sizes_between(least: int, most: int, factor: int) -> list[int]:
    """Return the sizes in bytes, from the least to at most the most."""
    sizes = [least]
    while sizes[-1] * factor <= most:
        sizes.append(sizes[-1] * factor)
    return sizes
