"""The arguments that every program has under the same name, each declared once.

The runner gives `--device` and `--scaling` to a program whose source names them, or `program_parser` and `add_epochs`.
"""

import sys
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from trainkit.errors import REFUSED, one_line


class Parser(ArgumentParser):
    """An argparse parser that says in one line what is wrong, and takes no abbreviations."""

    def __init__(self, description: str | None, prog: str | None = None) -> None:
        super().__init__(prog, None, description, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Write one line to stderr and exit."""
        sys.stderr.write(f"error: {one_line(message).removeprefix('argument ')}\n")
        raise SystemExit(REFUSED)


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of a whole number that has a lower bound."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise ArgumentTypeError(f"at least {least}, not {value}")
        return value

    number.__name__ = "whole number"
    return number


def program_parser(description: str | None) -> Parser:
    """Return a parser with what every program takes; a family adds its own."""
    parser = Parser(description)
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto")
    parser.add_argument("--threads", type=at_least(1), default=1, help="CPU threads of each process")
    return parser


def add_backend(parser: ArgumentParser) -> None:
    """For a program of several processes: what carries their messages."""
    parser.add_argument("--backend", choices=["auto", "nccl", "gloo"], default="auto")


def add_communication(parser: ArgumentParser) -> None:
    """For a program that may exchange less than DistributedDataParallel does, or unequal shares of a batch.

    See `trainkit.communication` and `trainkit.balance`.
    """
    parser.add_argument(
        "--communication",
        choices=["ddp", "bf16", "fp16", "local-sgd"],
        default="ddp",
        help="what the processes exchange. ddp: the gradients, at every step, as they are; bf16, fp16: gradients"
        " rounded to 16 bits before they are added up; local-sgd: no gradients, every process takes steps of its own"
        " and the models are averaged now and then",
    )
    parser.add_argument(
        "--accumulate",
        type=at_least(1),
        default=1,
        help="batches whose gradients are added up before they are exchanged and a step is taken: the batch of a step"
        " is so many times --batch-size",
    )
    parser.add_argument(
        "--sync-every",
        type=at_least(1),
        help="of local-sgd: steps between two averages, 32 if not given; the end of an epoch averages too",
    )
    parser.add_argument(
        "--balance",
        default="off",
        metavar="off|measured|SHARES",
        help="each process's share of a batch. off: equal; measured: as fast as it is, measured once, in the"
        " warm-up; or fixed shares by rank, for example 2,1",
    )


def add_devices(parser: ArgumentParser, default: int, meaning: str) -> None:
    """For a program that uses several GPUs in one process."""
    parser.add_argument("--devices", type=at_least(0), default=default, help=meaning)


def add_seed(parser: ArgumentParser) -> None:
    """For a program that draws random numbers."""
    parser.add_argument("--seed", type=int, default=1)


def add_epochs(parser: ArgumentParser, batch_size: int, unit: str) -> None:
    """For a program that trains by epochs: how many, and what a batch is."""
    parser.add_argument("--epochs", type=at_least(1), default=15)
    parser.add_argument("--batch-size", type=at_least(1), default=batch_size, help=f"{unit}; see --scaling")
    parser.add_argument(
        "--scaling",
        choices=["strong", "weak"],
        default="strong",
        help="strong: --batch-size is of all processes; weak: of each",
    )
    parser.add_argument(
        "--warmup-steps", type=at_least(0), default=2, help="steps before the clock starts; they are undone"
    )


def add_peak(parser: ArgumentParser) -> None:
    """For a program that reports the utilization of its devices."""
    parser.add_argument(
        "--peak-milliseconds",
        type=at_least(0),
        default=500,
        help="how long the peak of the devices is measured, before the training; 0: not at all",
    )


def add_learning_rate_rule(parser: ArgumentParser) -> None:
    """For a program that may scale its learning rate with the number of processes."""
    parser.add_argument(
        "--lr-rule", choices=["none", "linear"], default="none", help="linear: --lr times the number of processes"
    )


def add_data_dir(parser: ArgumentParser, data: Path, content: str) -> None:
    """For a program that reads prepared data."""
    parser.add_argument("--data-dir", default=str(data), help=content)


def data_folder(file: str) -> Path:
    """Return `data/` of the project that a file of `experiments/<family>/` belongs to."""
    return Path(file).resolve().parents[2] / "data"
