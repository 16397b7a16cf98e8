"""MNIST in one process on one device: the baseline of the other programs.

By hand:  python -m experiments.mnist.single --dataset digits --epochs 3
"""

from argparse import Namespace

from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy

from experiments.mnist.arguments import mnist_parser
from experiments.mnist.data import Batch, Batches, load
from experiments.mnist.training import Report, build_model, build_optimizer, set_learning_rate
from trainkit.epochs import global_batch_size
from trainkit.run import Run, running


@record
def main() -> None:
    """Parse the arguments and train."""
    args = mnist_parser(__doc__).parse_args()
    with running("mnist.single", args) as run:
        train(run, args)


def train(run: Run, args: Namespace) -> None:
    """Train, and test after each epoch."""
    batch_size = global_batch_size(args, run.world_size)
    with run.phase("data"):
        data = load(args, run)
        batches = Batches(data.train, args, run, batch_size)
    with run.phase("setup"):
        model = build_model(args, run)
        optimizer = build_optimizer(args, model)
    report = Report(run, data, args, batch_size)

    def step(batch: Batch) -> Tensor:
        losses = cross_entropy(model(batch.images), batch.labels, reduction="none")
        loss = losses.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return losses.detach()

    with run.phase("warmup"):
        report.warm_up(step, batches, model, optimizer)
    for epoch in range(1, args.epochs + 1):
        lr = set_learning_rate(optimizer, args, epoch, run.world_size)
        with report.epoch(epoch, lr) as totals:  # times train_seconds
            for batch in totals.timed(batches.epoch(epoch)):
                totals.add(batch, step(batch))
        report.evaluate(model, epoch)
    report.finish(model)


if __name__ == "__main__":
    main()
