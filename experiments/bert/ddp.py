"""BERT in several processes: DistributedDataParallel averages the gradients during backward.

By hand:  torchrun --standalone --nproc-per-node 2 -m experiments.bert.ddp --epochs 1
"""

from argparse import Namespace

from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from experiments.bert.arguments import bert_parser
from experiments.bert.data import Batch, Batches, load
from experiments.bert.model import autocast, build_model, build_optimizer
from experiments.bert.training import Report, warm_up
from trainkit.arguments import add_backend
from trainkit.epochs import global_batch_size
from trainkit.run import Run, running


@record
def main() -> None:
    """Read the arguments, then train."""
    parser = bert_parser(__doc__)
    add_backend(parser)
    args = parser.parse_args()
    with running("bert.ddp", args) as run:
        train(run, args)


def train(run: Run, args: Namespace) -> None:
    """Train, and test after every epoch."""
    batch_size = global_batch_size(args, run.world_size)
    run.join()
    with run.phase("data"):
        data = load(args, run)
        batches = Batches(data.train, args.seed, run, batch_size)
    with run.phase("setup"):
        model = build_model(data.folder, args, run)
        devices = [run.device] if run.device.type == "cuda" else None
        # BERT's only buffer counts positions: nothing in it to exchange at every step.
        ddp = DistributedDataParallel(model, device_ids=devices, broadcast_buffers=False)
        optimizer = build_optimizer(args, model, run.world_size)
    report = Report(run, data, args, batch_size)

    def step(batch: Batch) -> Tensor:
        with autocast(args, run):
            logits = ddp(batch.tokens, attention_mask=batch.mask).logits
        losses = cross_entropy(logits.float(), batch.labels, reduction="none")
        # DDP will divide the sum of the ranks' gradients by their number. Parts of a batch may
        # differ in size, so each loss is weighted for that mean to be the mean over all samples.
        loss = losses[: batch.samples].sum() * run.world_size / batch.global_samples
        optimizer.zero_grad()
        loss.backward()  # ... and here the ranks exchange their gradients
        optimizer.step()
        return losses.detach()

    with run.phase("warmup"):
        warm_up(step, batches, run, args, model, optimizer, report.work)
    for epoch in range(1, args.epochs + 1):
        lr = optimizer.param_groups[0]["lr"]
        with report.epoch(epoch, lr) as totals:  # the clock of train_seconds runs in here
            for batch in totals.timed(batches.epoch(epoch)):
                totals.add(batch, step(batch), batch.tokens.numel())
        report.evaluate(model, epoch)
    report.finish(model)


if __name__ == "__main__":
    main()
