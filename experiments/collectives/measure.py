"""Every operation of torch.distributed: first with values that can be followed by hand, then its speed by size.

By hand:  torchrun --standalone --nproc-per-node 2 -m experiments.collectives.measure --max-bytes 16777216
"""

import sys
from argparse import Namespace

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from experiments.collectives.lesson import teach
from experiments.collectives.limits import require_ranks, require_room, require_sense, sizes_between
from experiments.collectives.operations import OPERATIONS, cut
from experiments.collectives.table import Row, headlines, table
from experiments.collectives.timing import time_calls
from trainkit.arguments import add_backend, at_least, program_parser
from trainkit.distributed import device_of_messages
from trainkit.errors import Refusal
from trainkit.run import Run, running


@record
def main() -> None:
    """Read the arguments, then measure."""
    parser = program_parser(__doc__)
    add_backend(parser)
    parser.add_argument("--operations", default="all", help=f"names with commas between: {', '.join(OPERATIONS)}")
    parser.add_argument("--min-bytes", type=int, default=1024)
    parser.add_argument("--max-bytes", type=int, default=256 * 2**20)
    parser.add_argument("--factor", type=at_least(2), default=4, help="from one size to the next")
    parser.add_argument("--rounds", type=at_least(1), default=5, help="of many calls each; the fastest is reported too")
    parser.add_argument("--calls", type=at_least(1), default=100, help="of a round at most; large messages take fewer")
    args = parser.parse_args()
    with running("collectives.measure", args) as run:
        require_sense(args, run.world_size)
        run.join()
        measure(run, args)


def measure(run: Run, args: Namespace) -> None:
    """Show each operation, time it at each size, and sum up."""
    names = list(OPERATIONS) if args.operations == "all" else args.operations.split(",")
    with run.phase("lesson"):
        supported = [name for name in names if show(run, name, named=args.operations != "all")]
    with run.phase("setup"):
        require_room(run, args.max_bytes)
        memory = device_of_messages()  # Gloo is given main memory on a GPU too: it has few operations on GPU memory
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
    """Run an operation on the lesson's values; return whether the backend has it."""
    try:
        require_ranks(name, run.world_size)
        lesson = teach(name, device_of_messages())
    except (Refusal, RuntimeError) as error:
        why = str(error).partition("\n")[0]
        if not isinstance(error, (Refusal, NotImplementedError)) and "not support" not in why:
            raise
        if named:
            raise Refusal(f"{run.backend} cannot do {name} here: {why}") from error
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
    """Time one operation at one size and report it; sizes are rounded down to whole elements of every part."""
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


if __name__ == "__main__":
    main()
