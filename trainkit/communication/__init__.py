"""What the ranks of a training exchange, and how often: the choices behind `--communication`.

A program builds one exchange, calls its model, and reports each step to it, as `experiments/mnist/ddp.py` does;
experiments/README.md says what each choice changes in the mathematics.

Gradients are the mean over the samples of all ranks if each rank's loss is the sum over its own samples, times the
number of ranks, over the samples of all.
"""

from argparse import Namespace

from torch import nn

from trainkit.communication.averages import LocalSgd
from trainkit.communication.exchange import Exchange
from trainkit.communication.gradients import HalfPrecision, PlainDdp
from trainkit.errors import Refusal
from trainkit.run import Run

__all__ = ["Exchange", "build", "check", "check_batch", "settle"]


def build(args: Namespace, run: Run, model: nn.Module) -> Exchange:
    """Return the exchange that `args` names; all ranks call it, and have rank 0's model when it returns.

    Args:
        args: with what `trainkit.arguments.add_communication` declares, settled.
        run: joined.
        model: on its device.

    Raises:
        Refusal: the backend cannot have this communication.
    """
    if args.communication in ("fp16", "bf16"):
        return HalfPrecision(run, model, args.communication)
    if args.communication == "local-sgd":
        return LocalSgd(run, model, args.sync_every)
    return PlainDdp(run, model)


def settle(args: Namespace) -> None:
    """Set `sync_every` to its default where it matters; elsewhere it stays None."""
    if args.communication == "local-sgd" and args.sync_every is None:
        args.sync_every = 32


def check(args: Namespace) -> None:
    """Refuse an option that would have no effect."""
    if args.sync_every is not None and args.communication != "local-sgd":
        raise Refusal(f"--sync-every has no effect with --communication {args.communication}: it is of local-sgd")


def check_batch(args: Namespace, batch_size: int, samples: int) -> None:
    """Refuse a step that has more batches than the training set.

    Args:
        args: settled.
        batch_size: of a step, of all ranks together.
        samples: of the training set.
    """
    if args.accumulate > 1 and batch_size > samples:
        most = max(1, samples // (batch_size // args.accumulate))
        raise Refusal(
            f"--accumulate {args.accumulate}: a step would have {batch_size:,} samples and the training set has"
            f" {samples:,}: take at most {most}"
        )
