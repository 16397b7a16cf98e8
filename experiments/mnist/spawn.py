"""MNIST in several processes that this program starts itself: torchrun's part, by hand.

By hand:  python -m experiments.mnist.spawn --nproc 2 --dataset digits --epochs 3
"""

import os
import sys
from argparse import Namespace

import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.multiprocessing.spawn import ProcessExitedException, spawn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from experiments.distributed import Place, Refusal
from experiments.mnist.arguments import mnist_parser, parse
from experiments.mnist.data import Batch, Batches, load
from experiments.mnist.traffic import tell_ddp
from experiments.mnist.training import (
    Report,
    build_model,
    build_optimizer,
    set_learning_rate,
    warm_up,
)
from experiments.report import global_batch_size
from experiments.run import Run, running


@record
def main() -> None:
    """Read the arguments, start the processes and wait for all of them."""
    parser = mnist_parser(__doc__)
    parser.add_argument("--backend", choices=["auto", "nccl", "gloo"], default="auto")
    parser.add_argument("--nproc", type=int, default=2, help="processes to start")
    args = parse(parser)
    if Place.from_environment().world_size > 1:
        with running("mnist.spawn", args):
            message = "mnist.spawn starts its own processes: start it once, with --nproc"
            raise Refusal(message)
    # The place where the processes find each other; the system chooses a free port.
    store = dist.TCPStore(  # type: ignore[attr-defined]
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    try:
        spawn(work, args=(store.port, args), nprocs=args.nproc)
    except ProcessExitedException as stopped:
        sys.exit(stopped.exit_code)  # it has said why


def work(local_rank: int, port: int, args: Namespace) -> None:
    """Tell this process its place, in torchrun's words; then train as under torchrun."""
    os.environ |= {
        "RANK": str(local_rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(args.nproc),
        "LOCAL_WORLD_SIZE": str(args.nproc),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        # The parent keeps the store, as torchrun's agent does: rank 0 shall not make one.
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    with running("mnist.spawn", args) as run:
        train(run, args)


def train(run: Run, args: Namespace) -> None:
    """Train, and test after every epoch."""
    batch_size = global_batch_size(args, run.world_size)
    run.join()
    with run.phase("data"):
        data = load(args, run)
        batches = Batches(data.train, args, run, batch_size)
    with run.phase("setup"):
        model = build_model(args, run)
        devices = [run.device] if run.device.type == "cuda" else None
        ddp = DistributedDataParallel(model, device_ids=devices)
        optimizer = build_optimizer(args, model)
    report = Report(run, data, args, batch_size)

    def step(batch: Batch) -> Tensor:
        losses = cross_entropy(ddp(batch.images), batch.labels, reduction="none")
        # DDP will divide the sum of the ranks' gradients by their number. Parts of a batch may
        # differ in size, so each loss is weighted for that mean to be the mean over all samples.
        loss = losses[: batch.samples].sum() * run.world_size / batch.global_samples
        optimizer.zero_grad()
        loss.backward()  # ... and here the ranks exchange their gradients
        optimizer.step()
        return losses.detach()

    with run.phase("warmup"):
        warm_up(step, batches, run, model, optimizer)
    for epoch in range(1, args.epochs + 1):
        lr = set_learning_rate(optimizer, args, epoch, run.world_size)
        with report.epoch(epoch, lr) as totals:  # the clock of train_seconds runs in here
            for batch in batches.epoch(epoch):
                totals.add(batch, step(batch))
        report.evaluate(model, epoch)
    report.finish(model)
    tell_ddp(run, model, next(batches.epoch(1)).images)


if __name__ == "__main__":
    main()
