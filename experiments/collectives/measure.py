"""Run every operation of torch.distributed, first on small values to follow by hand, then timed by message size.

By hand:  torchrun --standalone --nproc-per-node 2 -m experiments.collectives.measure --max-bytes 16777216
"""

import os
import sys
from argparse import Namespace

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from experiments.collectives.lesson import teach
from experiments.collectives.operations import ELEMENT_BYTES, OPERATIONS, cut
from experiments.collectives.timing import time_calls
from trainkit import distributed
from trainkit.arguments import add_backend, at_least, program_parser
from trainkit.distributed import device_of_messages
from trainkit.errors import Refusal
from trainkit.run import Run, running

Row = tuple[str, dict[str, float]]
"""An operation's name and figures at one size: `bytes`, `seconds`, `min_seconds` and, unless empty, two bandwidths."""

HEADLINES = ("all_reduce", "ring_all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast", "isend")
TITLES = ("bytes", "mean us", "min us", "algbw GB/s", "busbw GB/s")


@record
def main() -> None:
    """Parse the arguments and measure."""
    parser = program_parser(__doc__)
    add_backend(parser)
    parser.add_argument("--operations", default="all", help=f"names, separated by commas: {', '.join(OPERATIONS)}")
    parser.add_argument("--min-bytes", type=int, default=1024)
    parser.add_argument("--max-bytes", type=int, default=256 * 2**20)
    parser.add_argument("--factor", type=at_least(2), default=4, help="ratio of each size to the one before")
    parser.add_argument("--rounds", type=at_least(1), default=5, help="rounds of calls; the fastest is reported too")
    parser.add_argument("--calls", type=at_least(1), default=100, help="maximum calls per round; fewer if large")
    args = parser.parse_args()
    with running("collectives.measure", args) as run:
        require_sense(args, run.world_size)
        run.join()
        measure(run, args)


def measure(run: Run, args: Namespace) -> None:
    """Show each operation, time it at each size, and report the results."""
    names = list(OPERATIONS) if args.operations == "all" else args.operations.split(",")
    with run.phase("lesson"):
        supported = [name for name in names if show(run, name, named=args.operations != "all")]
    with run.phase("setup"):
        require_room(run, args.max_bytes)
        memory = device_of_messages()  # main memory for Gloo, which supports few operations on GPU memory
        arenas = [torch.empty(args.max_bytes, dtype=torch.uint8, device=memory).fill_(0) for _ in range(2)]
    rows = []
    with run.phase("measure"):
        for name in supported:
            sizes = [0] if name == "barrier" else sizes_between(args.min_bytes, args.max_bytes, args.factor)
            rows += [time_operation(run, args, name, size, arenas) for size in sizes]
    if run.first:
        run.log.point("tracked_stats", headlines(rows))
        sys.stderr.write(table(rows, run.world_size))


def show(run: Run, name: str, *, named: bool) -> bool:
    """Run an operation on the lesson's values; return whether the backend supports it, or refuse if `named`."""
    try:
        lesson = teach(name, device_of_messages())
    except (Refusal, RuntimeError) as error:
        why = str(error).partition("\n")[0]
        if not isinstance(error, (Refusal, NotImplementedError)) and "not support" not in why:
            raise
        if named:
            raise Refusal(f"{run.backend} does not support {name} here: {why}") from error
        if run.first:
            run.log.point("lesson", name, outcome="unsupported", why=why)
        return False
    for when, values in (("before", lesson.before), ("after", lesson.after)):
        sys.stdout.write(f"{when} {name}  Rank  {run.rank}  has data  tensor({values})\n")
    sys.stdout.flush()
    outcome = "right" if lesson.expected is not None else "not defined on this rank"
    run.log.point("lesson", name, outcome=outcome, before=lesson.before, after=lesson.after)
    return True


def time_operation(run: Run, args: Namespace, name: str, size: int, arenas: list[Tensor]) -> Row:
    """Time one operation at one size and report it; sizes are rounded down to whole elements of each part."""
    operation = OPERATIONS[name]
    buffers, size = cut(operation, size, arenas, run.world_size)
    timing = time_calls(run, lambda: operation.call(buffers), size, args.rounds, args.calls)
    seconds = timing.seconds / operation.trips
    row = {"bytes": size, "seconds": seconds, "min_seconds": timing.min_seconds / operation.trips}
    if size:
        row["algorithm_bytes_per_second"] = size / seconds
        row["bus_bytes_per_second"] = size / seconds * operation.bus(run.world_size)
    if run.first:
        run.log.point("collective", name, **row, calls=timing.calls, memory=device_of_messages().type)
    return name, row


def require_sense(args: Namespace, ranks: int) -> None:
    """Raise Refusal for invalid arguments, before the process group is set up."""
    names = [] if args.operations == "all" else args.operations.split(",")
    unknown = [name for name in names if name not in OPERATIONS]
    complaints = [
        (unknown, f"unknown operation '{', '.join(unknown)}': choose from {', '.join(OPERATIONS)}"),
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


def require_room(run: Run, size: int) -> None:
    """Raise Refusal on all ranks if a node lacks memory for two buffers of `size` bytes."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") // run.place.local_world_size
    device = distributed.device_of_messages()
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
    [short] = distributed.total(2 * size > free)
    if short:
        raise Refusal(f"--max-bytes {size}: {short:.0f} of {run.world_size} ranks have no memory for two such buffers")


def sizes_between(least: int, most: int, factor: int) -> list[int]:
    """Return the sizes in bytes, from `least` up to `most`."""
    sizes = [least]
    while sizes[-1] * factor <= most:
        sizes.append(sizes[-1] * factor)
    return sizes


def headlines(rows: list[Row]) -> dict[str, float]:
    """Return time and bus bandwidth of the main operations at the largest size."""
    largest = dict(rows)
    stats = {}
    for name in HEADLINES:
        if row := largest.get(name):
            stats[f"{name}_seconds"] = row["seconds"]
            stats[f"{name}_bus_bytes_per_second"] = row["bus_bytes_per_second"]
    return stats


def table(rows: list[Row], ranks: int) -> str:
    """Return the rows as a text table, in microseconds and in 10^9 bytes per second, as in nccl-tests."""
    lines = [f"{ranks} ranks", f"{'operation':24}" + "".join(f"{title:>12}" for title in TITLES)]
    for name, row in rows:
        numbers = [f"{row['bytes']:.0f}", f"{1e6 * row['seconds']:.1f}", f"{1e6 * row['min_seconds']:.1f}"]
        numbers += [f"{row[key] / 1e9:.3f}" for key in row if key.endswith("bytes_per_second")]
        lines.append(f"{name:24}" + "".join(f"{number:>12}" for number in numbers))
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
