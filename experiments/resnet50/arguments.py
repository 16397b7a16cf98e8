"""The arguments of the ResNet50 programs."""

import math
import os
from argparse import Namespace

from trainkit.arguments import Parser, add_peak, add_seed, at_least, program_parser
from trainkit.errors import Refusal

SHRINKS = 32
"""Ratio of the image's side to that of ResNet's last feature map."""


def resnet_parser(description: str | None) -> Parser:
    """Return a parser with the arguments of all ResNet50 programs."""
    parser = program_parser(description)
    parser.add_argument("--batches", type=at_least(1), default=5)
    parser.add_argument("--batch-size", type=at_least(1), default=120, help="images")
    parser.add_argument("--image-size", type=at_least(1), default=128, help="side in pixels")
    parser.add_argument(
        "--micro-batches", type=at_least(1), default=1, help="parts of a batch, processed one after another"
    )
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of SGD")
    add_seed(parser)
    add_peak(parser)
    parser.add_argument(
        "--warmup-batches", type=at_least(0), default=1, help="batches before the clock starts, undone afterwards"
    )
    parser.add_argument("--profile", action="store_true", help="trace four more batches, after the clock has stopped")
    parser.add_argument(
        "--artifacts",
        default=os.environ.get("KIT_ARTIFACTS", ""),
        help="folder for the trace; by default $KIT_ARTIFACTS",
    )
    return parser


def require_sense(args: Namespace) -> None:
    """Raise Refusal for arguments that do not fit together."""
    if args.micro_batches > args.batch_size:
        raise Refusal(f"--micro-batches {args.micro_batches}: a batch has only {args.batch_size} images")
    smallest = args.batch_size // args.micro_batches
    if smallest * math.ceil(args.image_size / SHRINKS) ** 2 < 2:
        raise Refusal("BatchNorm needs two values per channel: use fewer micro-batches, or more or larger images")
    if args.profile and not args.artifacts:
        raise Refusal("--profile writes a trace: name its folder with --artifacts")
    if getattr(args, "devices", 2) != 2:
        raise Refusal(f"--devices {args.devices}: the model is split over 2 devices")
