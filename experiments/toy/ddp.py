"""A net of two layers on several nodes; each process prints its ranks.

By hand:  torchrun --standalone --nproc-per-node 2 -m experiments.toy.ddp
"""

import os
import sys
from argparse import Namespace

import torch
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from trainkit import distributed
from trainkit import sharding as shards
from trainkit.arguments import add_backend, add_seed, at_least, program_parser
from trainkit.run import Run, running


@record
def main() -> None:
    """Parse the arguments and train."""
    parser = program_parser(__doc__)
    add_backend(parser)
    add_seed(parser)
    parser.add_argument("--steps", type=at_least(1), default=100)
    parser.add_argument("--batch-size", type=at_least(1), default=20, help="samples of each process")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of SGD")
    args = parser.parse_args()
    with running("toy.ddp", args) as run:
        run.join()
        train(run, args)


def train(run: Run, args: Namespace) -> None:
    """Train on noise, different on each rank and the same in every step."""
    with run.phase("data"):
        own = shards.generator(args.seed, "noise", run.rank)
        inputs = torch.randn(args.batch_size, 10, generator=own).to(run.device)
        labels = torch.randn(args.batch_size, 5, generator=own).to(run.device)
    with run.phase("setup"):
        torch.manual_seed(args.seed)
        model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)).to(run.device)
        # The device index is the local rank, not the rank.
        ddp = DistributedDataParallel(model, device_ids=[run.device] if run.device.type == "cuda" else None)
        optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    where = {name: os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "LOCAL_WORLD_SIZE")}
    sys.stderr.write(f"[{os.getpid()}] rank {run.rank}, local rank {run.place.local_rank}: {where}\n")
    with run.phase("epoch", epoch_num=1, epochs=1) as phase:
        for _ in range(args.steps):
            loss = mse_loss(ddp(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        seconds = phase.stop_clock()
        samples = args.steps * args.batch_size
        phase.metadata |= {"train_seconds": seconds, "samples": samples, "steps": args.steps}
        [total_loss] = distributed.total(loss.detach())
        mean = total_loss / run.world_size
        if run.first:
            phase.metadata |= {"trained_samples": samples * run.world_size, "loss": mean, "loss_hex": mean.hex()}
    if run.first:
        run.log.point("seed", args.seed)
        run.log.point("global_batch_size", args.batch_size * run.world_size)
    run.log.point("loss", loss.item(), local_rank=run.place.local_rank, node_rank=run.place.node_rank)
    run.log.point("parameters", run.require_equal_parameters(model), equal_on_all_ranks=True)
    run.log.point("tracked_stats", {"train_seconds": seconds, "final_loss": mean})


if __name__ == "__main__":
    main()
