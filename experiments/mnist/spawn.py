"""MNIST in several processes that this program starts itself: torchrun's part, by hand; the training is that of ddp.

By hand:  python -m experiments.mnist.spawn --nproc 2 --dataset digits --epochs 3
"""

import os
import sys
from argparse import Namespace

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.multiprocessing.spawn import ProcessExitedException, spawn

from experiments.mnist.arguments import mnist_parser
from experiments.mnist.ddp import train
from trainkit import communication
from trainkit.arguments import add_backend, add_communication, at_least
from trainkit.distributed import Place
from trainkit.errors import Refusal
from trainkit.parent import end_with_parent
from trainkit.run import running


@record
def main() -> None:
    """Read the arguments, start the processes and wait for all of them."""
    parser = mnist_parser(__doc__)
    add_backend(parser)
    add_communication(parser)
    parser.add_argument("--nproc", type=at_least(1), default=2, help="processes to start")
    args = parser.parse_args()
    communication.settle(args)
    if Place.from_environment().world_size > 1:
        with running("mnist.spawn", args):
            raise Refusal("mnist.spawn starts its own processes: start it once, with --nproc")
    # Where the processes find each other; the system chooses a free port.
    store = dist.TCPStore(  # type: ignore[attr-defined]
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    try:
        spawn(work, args=(store.port, args), nprocs=args.nproc)
    except ProcessExitedException as stopped:
        sys.exit(stopped.exit_code)  # it has said why


def work(local_rank: int, port: int, args: Namespace) -> None:
    """Set this process's place, in torchrun's variables; then train as under torchrun."""
    end_with_parent()
    os.environ |= {
        "RANK": str(local_rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(args.nproc),
        "LOCAL_WORLD_SIZE": str(args.nproc),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        # The parent keeps the store, as torchrun's agent does: rank 0 must not make one.
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "spawn",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    with running("mnist.spawn", args) as run:
        train(run, args)


if __name__ == "__main__":
    main()
