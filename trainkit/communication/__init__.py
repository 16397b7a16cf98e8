"""What the ranks of a training exchange, and how often: the choices behind `--communication`.

A program builds one exchange, calls its model, and reports each step to it, as `experiments/mnist/ddp.py` does;
docs/methods.md says what each choice changes in the mathematics.

Gradients are the mean over the samples of all ranks if each rank's loss is the sum over its own samples, times the
number of ranks, over the samples of all.
"""

import math
from argparse import Namespace

from torch import nn

from trainkit.communication.averages import DiLoCo, LocalSgd
from trainkit.communication.exchange import Exchange
from trainkit.communication.gradients import HalfPrecision, LowRank, OneMachine, PlainDdp
from trainkit.errors import Refusal
from trainkit.run import Run

__all__ = ["Exchange", "build", "check", "check_batch", "settle"]
DEFAULTS: dict[str, dict[str, float]] = {
    "powersgd": {"powersgd_rank": 2},
    "local-sgd": {"sync_every": 32},
    "diloco": {"sync_every": 32, "outer_lr": 0.7, "outer_momentum": 0.9},
}
"""By communication; the outer optimizer's are those of Douillard et al. 2023, section 3."""
_OWN = sorted({option for options in DEFAULTS.values() for option in options})


def build(args: Namespace, run: Run, model: nn.Module) -> Exchange:
    """Return the exchange that `args` names; all ranks call it, and have rank 0's model when it returns.

    Args:
        args: with what `trainkit.arguments.add_communication` declares, settled; and, for powersgd, a `seed`.
        run: joined.
        model: on its device.

    Raises:
        Refusal: the backend or the model cannot have this communication.
    """
    name = args.communication
    if name in ("fp16", "bf16"):
        return HalfPrecision(run, model, name)
    if name == "shared-memory":
        return OneMachine(run, model)
    if name == "powersgd":
        return LowRank(run, model, args.powersgd_rank, args.seed)
    if name == "local-sgd":
        return LocalSgd(run, model, args.sync_every)
    if name == "diloco":
        return DiLoCo(run, model, args.sync_every, args.outer_lr, args.outer_momentum)
    return PlainDdp(run, model)


def settle(args: Namespace) -> None:
    """Set the options that were not given and belong to the communication; the others stay None."""
    for option, default in DEFAULTS.get(args.communication, {}).items():
        if getattr(args, option) is None:
            setattr(args, option, default)


def check(args: Namespace) -> None:
    """Refuse an option that would have no effect, and outer steps that do not converge."""
    for option in _OWN:
        users = [name for name, options in DEFAULTS.items() if option in options]
        if getattr(args, option) is not None and args.communication not in users:
            raise Refusal(
                f"--{option.replace('_', '-')} has no effect with --communication {args.communication}:"
                f" it is of {' and '.join(users)}"
            )
    if args.outer_lr is not None and not (math.isfinite(args.outer_lr) and args.outer_lr > 0):
        raise Refusal(f"--outer-lr {args.outer_lr}: a learning rate is above 0")
    if args.outer_momentum is not None and not 0 <= args.outer_momentum < 1:
        raise Refusal(f"--outer-momentum {args.outer_momentum}: it is at least 0 and below 1")


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
