"""The options of `--communication` that belong to one choice alone: their defaults, and what goes together."""

import math
from argparse import Namespace

from trainkit.errors import Refusal

DEFAULTS: dict[str, dict[str, float]] = {
    "powersgd": {"powersgd_rank": 2},
    "local-sgd": {"sync_every": 32},
    "diloco": {"sync_every": 32, "outer_lr": 0.7, "outer_momentum": 0.9},
}
"""By communication; the outer optimizer's are those of Douillard et al. 2023, section 3."""
_OWN = sorted({option for options in DEFAULTS.values() for option in options})


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
                f"{_spelled(option)} has no effect with --communication {args.communication}:"
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


def _spelled(option: str) -> str:
    return f"--{option.replace('_', '-')}"
