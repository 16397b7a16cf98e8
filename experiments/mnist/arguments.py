"""The arguments that all MNIST programs share."""

from experiments.mnist.model import MODELS
from trainkit.arguments import (
    Parser,
    add_data_dir,
    add_epochs,
    add_learning_rate_rule,
    add_peak,
    add_seed,
    at_least,
    data_folder,
    program_parser,
)

DATA = data_folder(__file__)


def mnist_parser(description: str | None) -> Parser:
    """Return a parser with the arguments of all MNIST programs."""
    parser = program_parser(description)
    parser.add_argument("--dataset", choices=["mnist", "digits"], default="mnist")
    add_data_dir(parser, DATA, "data folder, with MNIST in mnist/")
    parser.add_argument("--model", choices=list(MODELS), default="conv2-fc500")
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--momentum", type=float, default=0.0, help="for sgd")
    add_learning_rate_rule(parser)
    parser.add_argument(
        "--lr-step-epochs",
        type=at_least(0),
        default=0,
        help="epochs after which --lr is multiplied by --lr-gamma, repeatedly; 0: never",
    )
    parser.add_argument("--lr-gamma", type=float, default=0.1)
    parser.add_argument(
        "--augment",
        choices=["none", "affine"],
        default="none",
        help="affine: rotate by up to 10 degrees and shift by up to a tenth",
    )
    add_epochs(parser, 512, "samples")
    add_seed(parser)
    add_peak(parser)
    parser.add_argument(
        "--loader",
        choices=["resident", "torchvision"],
        default="resident",
        help="resident: normalise batches on the device; torchvision: normalise each sample, from PIL images",
    )
    return parser
