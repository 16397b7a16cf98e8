"""The arguments that all BERT programs share."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

DATA = Path(__file__).parents[2] / "data"
PREPARED = "prepared"


def bert_parser(description: str | None) -> ArgumentParser:
    """Return a parser with the shared arguments; a program adds its own, if any."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--data-dir", default=str(DATA), help="sentences and model lie in its folder bert/")
    parser.add_argument(
        "--model",
        default=PREPARED,
        help="prepared: that of the data folder; or a folder, or a name in the Hugging Face cache of this machine",
    )
    parser.add_argument("--optimizer", choices=["adam", "adamw"], default="adam")
    parser.add_argument("--lr", type=float, default=2e-5, help="learning rate")
    parser.add_argument("--weight-decay", type=float, default=0.01, help="of adamw")
    parser.add_argument(
        "--lr-rule",
        choices=["none", "linear"],
        default="none",
        help="linear: --lr times the number of processes",
    )
    parser.add_argument(
        "--precision",
        choices=["fp32", "bf16"],
        default="fp32",
        help="bf16: autocast; parameters, gradients and optimizer stay in fp32",
    )
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64, help="sentences; see --scaling")
    parser.add_argument(
        "--scaling",
        choices=["strong", "weak"],
        default="strong",
        help="strong: --batch-size is of all processes; weak: of each",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of each process")
    parser.add_argument("--warmup-steps", type=int, default=2, help="steps before the clock starts; they are undone")
    return parser


def parse(parser: ArgumentParser) -> Namespace:
    """Read the command line; a number that makes no sense ends the program with one line."""
    args = parser.parse_args()
    for name, least in {"epochs": 1, "batch_size": 1, "threads": 1, "warmup_steps": 0}.items():
        value = getattr(args, name)
        if value < least:
            parser.error(f"--{name.replace('_', '-')} {value}: at least {least}")
    return args
