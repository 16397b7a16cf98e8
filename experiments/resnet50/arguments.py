"""The arguments that the ResNet50 programs share."""

import math
import os
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter

from experiments.distributed import Refusal

TWO = 2
SHRINKS = 32
"""How many times smaller ResNet's last feature map is than the image, by side."""


def resnet_parser(description: str | None) -> ArgumentParser:
    """Return a parser with the shared arguments; a program adds its own, if any."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=120, help="images")
    parser.add_argument("--image-size", type=int, default=128, help="pixels of a side")
    parser.add_argument("--micro-batches", type=int, default=1, help="parts of a batch that follow one another")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of SGD")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warmup-batches", type=int, default=1, help="before the clock starts; they are undone")
    parser.add_argument("--profile", action="store_true", help="trace four more batches, after the clock has stopped")
    parser.add_argument(
        "--artifacts",
        default=os.environ.get("KIT_ARTIFACTS", ""),
        help="the folder that takes the trace; $KIT_ARTIFACTS where it is set",
    )
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of the process")
    return parser


def require_sense(args: Namespace) -> None:
    """Refuse what cannot be trained."""
    for name in ("batches", "batch_size", "image_size", "micro_batches"):
        if getattr(args, name) < 1:
            message = f"--{name.replace('_', '-')} {getattr(args, name)}: at least 1"
            raise Refusal(message)
    if args.warmup_batches < 0:
        message = f"--warmup-batches {args.warmup_batches}: at least 0"
        raise Refusal(message)
    if args.micro_batches > args.batch_size:
        message = f"--micro-batches {args.micro_batches}: a batch has {args.batch_size} images only"
        raise Refusal(message)
    smallest = args.batch_size // args.micro_batches
    if smallest * math.ceil(args.image_size / SHRINKS) ** 2 < TWO:
        message = "BatchNorm needs two values a channel: fewer micro-batches, a larger batch or larger images"
        raise Refusal(message)
    if args.profile and not args.artifacts:
        message = "--profile writes a trace: name its folder with --artifacts"
        raise Refusal(message)
    if getattr(args, "devices", TWO) != TWO:
        message = f"--devices {args.devices}: the model is cut in two"
        raise Refusal(message)
