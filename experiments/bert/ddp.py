"""BERT in several processes; the gradients are averaged by DistributedDataParallel or as `--communication` says.

By hand:  torchrun --standalone --nproc-per-node 2 -m experiments.bert.ddp --epochs 1
"""

from argparse import Namespace
from functools import partial

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy

from experiments.bert.arguments import bert_parser
from experiments.bert.data import Batch, Batches, add_less_work, load
from experiments.bert.model import autocast, build_model, build_optimizer
from experiments.bert.training import Report
from trainkit import communication
from trainkit.arguments import add_backend, add_communication
from trainkit.balance import Balance
from trainkit.epochs import global_batch_size
from trainkit.run import Run, running


@record
def main() -> None:
    """Parse the arguments and train."""
    parser = bert_parser(__doc__)
    add_less_work(parser)
    add_backend(parser)
    add_communication(parser)
    args = parser.parse_args()
    communication.settle(args)
    with running("bert.ddp", args) as run:
        train(run, args)


def train(run: Run, args: Namespace) -> None:
    """Train, and test after each epoch."""
    communication.check(args)
    batch_size = global_batch_size(args, run.world_size) * args.accumulate
    balance = Balance(args, run, batch_size)
    run.join()
    with run.phase("data"):
        data = load(args, run)
        communication.check_batch(args, batch_size, len(data.train))
        batches = Batches(data.train, args.seed, run, batch_size, balance.shares)
    with run.phase("setup"):
        model = build_model(data.folder, args, run, data.words)
        exchange = communication.build(args, run, model)
        optimizer = build_optimizer(args, model, run.world_size)
    report = Report(run, data, args, batch_size, shares=balance.shares)

    def step(batch: Batch) -> Tensor:
        optimizer.zero_grad()
        found = []
        for part in exchange.accumulated(batch.parts(args.accumulate)):
            with autocast(args, run):
                logits = exchange.model(part.tokens, attention_mask=part.mask).logits
            losses = cross_entropy(logits.float(), part.labels, reduction="none")
            # DDP takes the mean of the ranks' gradients. Parts of a batch may differ in size, so each loss is
            # weighted to make it the mean over all samples.
            loss = losses[: part.samples].sum() * run.world_size / part.global_samples
            loss.backward()  # the ranks exchange their gradients here
            found.append(losses.detach())
        optimizer.step()
        exchange.stepped()
        return torch.cat(found)

    with run.phase("warmup"):
        measure = partial(balance.measure, exchange, step)
        report.warm_up(exchange.synchronised(step), batches, model, optimizer, measure=measure)
        exchange.restart()
    for epoch in range(1, args.epochs + 1):
        lr = optimizer.param_groups[0]["lr"]
        with report.epoch(epoch, lr) as totals:  # times train_seconds
            for batch in totals.timed(batches.epoch(epoch)):
                totals.add(batch, step(batch), batch.tokens.numel())
            exchange.synchronise()
        report.evaluate(model, epoch)
    report.finish(model)
    exchange.report()


if __name__ == "__main__":
    main()
