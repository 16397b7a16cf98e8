"""BERT in one process on one device: the baseline of the other programs.

By hand:  python -m experiments.bert.single --epochs 1
"""

from argparse import Namespace

from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy

from experiments.bert.arguments import bert_parser
from experiments.bert.data import Batch, Batches, add_less_work, load
from experiments.bert.model import autocast, build_model, build_optimizer
from experiments.bert.training import Report
from trainkit.epochs import global_batch_size
from trainkit.run import Run, running


@record
def main() -> None:
    """Parse the arguments and train."""
    parser = bert_parser(__doc__)
    add_less_work(parser)
    args = parser.parse_args()
    with running("bert.single", args) as run:
        train(run, args)


def train(run: Run, args: Namespace) -> None:
    """Train, and test after each epoch."""
    batch_size = global_batch_size(args, run.world_size)
    with run.phase("data"):
        data = load(args, run)
        batches = Batches(data.train, args.seed, run, batch_size)
    with run.phase("setup"):
        model = build_model(data.folder, args, run, data.words)
        optimizer = build_optimizer(args, model, run.world_size)
    report = Report(run, data, args, batch_size)

    def step(batch: Batch) -> Tensor:
        with autocast(args, run):
            logits = model(batch.tokens, attention_mask=batch.mask).logits
        losses = cross_entropy(logits.float(), batch.labels, reduction="none")
        loss = losses.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return losses.detach()

    with run.phase("warmup"):
        report.warm_up(step, batches, model, optimizer)
    for epoch in range(1, args.epochs + 1):
        lr = optimizer.param_groups[0]["lr"]
        with report.epoch(epoch, lr) as totals:  # times train_seconds
            for batch in totals.timed(batches.epoch(epoch)):
                totals.add(batch, step(batch), batch.tokens.numel())
        report.evaluate(model, epoch)
    report.finish(model)


if __name__ == "__main__":
    main()
