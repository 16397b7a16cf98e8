"""The arguments that all MNIST programs share."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

from experiments.mnist.model import MODELS

DATA = Path(__file__).parents[2] / "data"


def mnist_parser(description: str | None) -> ArgumentParser:
    """Return a parser with the shared arguments; a program adds its own, if any."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--dataset", choices=["mnist", "digits"], default="mnist")
    parser.add_argument("--data-dir", default=str(DATA), help="MNIST lies in its folder mnist/")
    parser.add_argument("--model", choices=list(MODELS), default="seed-0")
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--momentum", type=float, default=0.0, help="of sgd")
    parser.add_argument(
        "--lr-rule",
        choices=["none", "linear"],
        default="none",
        help="linear: --lr times the number of processes",
    )
    parser.add_argument(
        "--lr-step-epochs",
        type=int,
        default=0,
        help="every so many epochs --lr is multiplied by --lr-gamma; 0: never",
    )
    parser.add_argument("--lr-gamma", type=float, default=0.1)
    parser.add_argument(
        "--augment",
        choices=["none", "affine"],
        default="none",
        help="affine: turn by up to 10 degrees, shift by up to a tenth",
    )
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=512, help="samples; see --scaling")
    parser.add_argument(
        "--scaling",
        choices=["strong", "weak"],
        default="strong",
        help="strong: --batch-size is of all processes; weak: of each",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of each process")
    parser.add_argument(
        "--loader",
        choices=["resident", "torchvision"],
        default="resident",
        help="resident: normalised by the batch on the device; torchvision: by the sample, from PIL images",
    )
    parser.add_argument("--warmup-steps", type=int, default=2, help="steps before the clock starts; they are undone")
    return parser


def parse(parser: ArgumentParser) -> Namespace:
    """Read the command line; a number that makes no sense ends the program with one line."""
    args = parser.parse_args()
    for name, least in {
        "epochs": 1,
        "batch_size": 1,
        "threads": 1,
        "nproc": 1,
        "warmup_steps": 0,
        "lr_step_epochs": 0,
        "devices": 0,
    }.items():
        value = getattr(args, name, least)
        if value < least:
            parser.error(f"--{name.replace('_', '-')} {value}: at least {least}")
    return args
