"""MNIST in one process on several GPUs, by DataParallel.

By hand:  python -m experiments.mnist.data_parallel --devices 2 --epochs 3
"""

from argparse import Namespace

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy

from experiments.mnist.arguments import mnist_parser
from experiments.mnist.data import Batch, Batches, load
from experiments.mnist.traffic import report_data_parallel
from experiments.mnist.training import Report, build_model, build_optimizer, set_learning_rate
from trainkit.arguments import add_devices
from trainkit.epochs import global_batch_size
from trainkit.run import Run, running


@record
def main() -> None:
    """Parse the arguments and train."""
    parser = mnist_parser(__doc__)
    add_devices(parser, 0, "GPUs; 0: all visible ones")
    args = parser.parse_args()
    args.devices = args.devices or (torch.cuda.device_count() if args.device != "cpu" else 1) or 1
    with running("mnist.data_parallel", args, devices=args.devices) as run:
        train(run, args)


def train(run: Run, args: Namespace) -> None:
    """Train, and test after each epoch."""
    batch_size = global_batch_size(args, run.devices)
    with run.phase("data"):
        data = load(args, run)
        batches = Batches(data.train, args, run, batch_size)
    with run.phase("setup"):
        model = build_model(args, run)
        # On the CPU the plain model is used: DataParallel would look for GPUs.
        parallel = nn.DataParallel(model, device_ids=run.cuda_devices) if run.cuda_devices else model
        optimizer = build_optimizer(args, model)
    report = Report(run, data, args, batch_size)

    def step(batch: Batch) -> Tensor:
        losses = cross_entropy(parallel(batch.images), batch.labels, reduction="none")
        loss = losses.mean()  # over all outputs, gathered on the first GPU
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return losses.detach()

    def alone(batch: Batch) -> None:
        # Counts the FLOPs: torch's counter does not see DataParallel's threads.
        cross_entropy(model(batch.images), batch.labels).backward()

    with run.phase("warmup"):
        report.warm_up(step, batches, model, optimizer, counted=alone)
    for epoch in range(1, args.epochs + 1):
        lr = set_learning_rate(optimizer, args, epoch, run.devices)
        with report.epoch(epoch, lr) as totals:  # times train_seconds
            for batch in totals.timed(batches.epoch(epoch)):
                totals.add(batch, step(batch))
        report.evaluate(model, epoch)
    report.finish(model)
    report_data_parallel(run, model, next(batches.epoch(1)).images)


if __name__ == "__main__":
    main()
