"""The command-line arguments that programs share, each declared once.

The runner passes `--device` and `--scaling` only to programs whose source names these options, or `program_parser` and
`add_epochs`.
"""

import sys
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from trainkit.errors import REFUSED, one_line


class Parser(ArgumentParser):
    """An argparse parser that reports errors in one line and accepts no abbreviations."""

    def __init__(self, description: str | None, prog: str | None = None) -> None:
        super().__init__(prog, None, description, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Write a one-line error to stderr and exit."""
        sys.stderr.write(f"error: {one_line(message).removeprefix('argument ')}\n")
        raise SystemExit(REFUSED)


def at_least(least: int) -> Callable[[str], int]:
    """Return an argparse type for integers that are not below `least`."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise ArgumentTypeError(f"at least {least}, not {value}")
        return value

    number.__name__ = "whole number"
    return number


def program_parser(description: str | None) -> Parser:
    """Return a parser with the arguments that every program takes."""
    parser = Parser(description)
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto")
    parser.add_argument("--threads", type=at_least(1), default=1, help="CPU threads of each process")
    return parser


def add_backend(parser: ArgumentParser) -> None:
    """Add `--backend`, for a program with several processes."""
    parser.add_argument("--backend", choices=["auto", "nccl", "gloo"], default="auto")


def add_communication(parser: ArgumentParser) -> None:
    """Add the arguments of `trainkit.communication` and `trainkit.balance`."""
    parser.add_argument(
        "--communication",
        choices=["ddp", "bf16", "fp16", "local-sgd"],
        default="ddp",
        help="what the processes exchange. ddp: gradients at every step, unchanged; bf16, fp16: gradients rounded to"
        " 16 bits before they are summed; local-sgd: no gradients: each process trains alone, and the models are"
        " averaged at intervals",
    )
    parser.add_argument(
        "--accumulate",
        type=at_least(1),
        default=1,
        help="batches whose gradients are summed before one exchange and one step; a step's batch is this many times"
        " --batch-size",
    )
    parser.add_argument(
        "--sync-every",
        type=at_least(1),
        help="for local-sgd: steps between two averages (default: 32); the end of an epoch averages too",
    )
    parser.add_argument(
        "--balance",
        default="off",
        metavar="off|measured|SHARES",
        help="each process's share of a batch. off: equal; measured: in proportion to its speed, measured once in the"
        " warm-up; or fixed shares by rank, for example 2,1",
    )


def add_devices(parser: ArgumentParser, default: int, meaning: str) -> None:
    """Add `--devices`, for a program that uses several GPUs in one process."""
    parser.add_argument("--devices", type=at_least(0), default=default, help=meaning)


def add_seed(parser: ArgumentParser) -> None:
    """Add `--seed`, for a program that draws random numbers."""
    parser.add_argument("--seed", type=int, default=1)


def add_epochs(parser: ArgumentParser, batch_size: int, unit: str) -> None:
    """Add the arguments of a program that trains by epochs; `unit` describes --batch-size."""
    parser.add_argument("--epochs", type=at_least(1), default=15)
    parser.add_argument("--batch-size", type=at_least(1), default=batch_size, help=f"{unit}; see --scaling")
    parser.add_argument(
        "--scaling",
        choices=["strong", "weak"],
        default="strong",
        help="strong: --batch-size is the total of all processes; weak: of each process",
    )
    parser.add_argument(
        "--warmup-steps", type=at_least(0), default=2, help="steps before the clock starts, undone afterwards"
    )


def add_peak(parser: ArgumentParser) -> None:
    """Add `--peak-milliseconds`, for a program that reports the utilization of its devices."""
    parser.add_argument(
        "--peak-milliseconds",
        type=at_least(0),
        default=500,
        help="how long to measure the devices' peak before the training; 0 skips the measurement",
    )


def add_learning_rate_rule(parser: ArgumentParser) -> None:
    """Add `--lr-rule`, for a program that may scale its learning rate with the number of processes."""
    parser.add_argument(
        "--lr-rule", choices=["none", "linear"], default="none", help="linear: --lr times the number of processes"
    )


def add_data_dir(parser: ArgumentParser, data: Path, content: str) -> None:
    """Add `--data-dir`, for a program that reads prepared data; `content` is its help text."""
    parser.add_argument("--data-dir", default=str(data), help=content)


def data_folder(file: str) -> Path:
    """Return the `data/` folder of the project that contains `file`, a file of `experiments/<family>/`."""
    return Path(file).resolve().parents[2] / "data"
