"""MNIST in several processes that this program starts itself, without torchrun; it trains as `mnist.ddp` does.

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
    """Parse the arguments, start the processes and wait for them."""
    parser = mnist_parser(__doc__)
    add_backend(parser)
    add_communication(parser)
    parser.add_argument("--nproc", type=at_least(1), default=2, help="processes to start")
    args = parser.parse_args()
    communication.settle(args)
    if Place.from_environment().world_size > 1:
        with running("mnist.spawn", args):
            raise Refusal("mnist.spawn starts its own processes: start it once, with --nproc")
    # The rendezvous; the system chooses a free port.
    store = dist.TCPStore(  # type: ignore[attr-defined]
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    try:
        spawn(work, args=(store.port, args), nprocs=args.nproc)
    except ProcessExitedException as stopped:
        sys.exit(stopped.exit_code)  # the process has printed the reason


def work(local_rank: int, port: int, args: Namespace) -> None:
    """Set torchrun's variables for this process and train as under torchrun."""
    end_with_parent()
    os.environ |= {
        "RANK": str(local_rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(args.nproc),
        "LOCAL_WORLD_SIZE": str(args.nproc),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        # The parent keeps the store, as torchrun's agent does, so rank 0 must not create one.
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "spawn",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    with running("mnist.spawn", args) as run:
        train(run, args)


if __name__ == "__main__":
    main()
