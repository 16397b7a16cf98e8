"""MNIST in several processes, with the gradients averaged by one all_reduce per parameter.

By hand:  torchrun --standalone --nproc-per-node 2 -m experiments.mnist.manual --dataset digits
"""

from argparse import Namespace

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy

from experiments.mnist.arguments import mnist_parser
from experiments.mnist.data import Batch, Batches, load
from experiments.mnist.traffic import report_manual
from experiments.mnist.training import Report, build_model, build_optimizer, set_learning_rate
from trainkit.arguments import add_backend
from trainkit.epochs import global_batch_size
from trainkit.run import Run, running


@record
def main() -> None:
    """Parse the arguments and train."""
    parser = mnist_parser(__doc__)
    add_backend(parser)
    args = parser.parse_args()
    with running("mnist.manual", args) as run:
        train(run, args)


def train(run: Run, args: Namespace) -> None:
    """Train, and test after each epoch."""
    batch_size = global_batch_size(args, run.world_size)
    run.join()
    with run.phase("data"):
        data = load(args, run)
        batches = Batches(data.train, args, run, batch_size)
    with run.phase("setup"):
        model = build_model(args, run)
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)  # all ranks start from rank 0's model
        optimizer = build_optimizer(args, model)
    report = Report(run, data, args, batch_size)

    def step(batch: Batch) -> Tensor:
        losses = cross_entropy(model(batch.images), batch.labels, reduction="none")
        # Gradients of these losses sum, over the ranks, to the gradient of the global batch's mean loss.
        loss = losses[: batch.samples].sum() / batch.global_samples
        optimizer.zero_grad()
        loss.backward()
        with run.exchanging():
            add_gradients(model)  # one by one after backward; DDP exchanges buckets during it
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
    report_manual(run, model)


def add_gradients(model: nn.Module) -> None:
    """Replace each gradient by its sum over all ranks."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)


if __name__ == "__main__":
    main()
