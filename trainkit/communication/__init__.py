"""What the ranks of a training exchange, and how often: the choices of `--communication`.

A program builds one exchange, calls its model, and reports each step to it, as `experiments/mnist/ddp.py` does. Its
loss must be the sum over a rank's samples, times the number of ranks, divided by the samples of all ranks.
experiments/README.md describes the mathematics of each choice.
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
    """Return the exchange that `args` names, after `settle`; Refusal if the backend does not support it.

    The run is joined, and the model is on its device. All ranks must call it; afterwards they have rank 0's model.
    """
    if args.communication in ("fp16", "bf16"):
        return HalfPrecision(run, model, args.communication)
    if args.communication == "local-sgd":
        return LocalSgd(run, model, args.sync_every)
    return PlainDdp(run, model)


def settle(args: Namespace) -> None:
    """Set `sync_every` to its default for local-sgd; otherwise it stays None."""
    if args.communication == "local-sgd" and args.sync_every is None:
        args.sync_every = 32


def check(args: Namespace) -> None:
    """Raise Refusal for an option that would have no effect."""
    if args.sync_every is not None and args.communication != "local-sgd":
        raise Refusal(f"--sync-every has no effect with --communication {args.communication}: it needs local-sgd")


def check_batch(args: Namespace, batch_size: int, samples: int) -> None:
    """Raise Refusal if a step of all ranks (`batch_size`) needs more than the `samples` of the training set."""
    if args.accumulate > 1 and batch_size > samples:
        most = max(1, samples // (batch_size // args.accumulate))
        raise Refusal(
            f"--accumulate {args.accumulate}: a step would have {batch_size:,} samples and the training set has"
            f" {samples:,}: take at most {most}"
        )
