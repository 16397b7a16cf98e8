"""The arguments that all BERT programs share."""

from trainkit.arguments import (
    Parser,
    add_data_dir,
    add_epochs,
    add_learning_rate_rule,
    add_peak,
    add_seed,
    data_folder,
    program_parser,
)

DATA = data_folder(__file__)
PREPARED = "prepared"


def bert_parser(description: str | None) -> Parser:
    """Return a parser with the arguments of all BERT programs."""
    parser = program_parser(description)
    add_data_dir(parser, DATA, "data folder, with sentences and model in bert/")
    parser.add_argument(
        "--model",
        default=PREPARED,
        help="prepared: the model in the data folder; otherwise a folder, or a name in the Hugging Face cache",
    )
    parser.add_argument("--optimizer", choices=["adam", "adamw"], default="adam")
    parser.add_argument("--lr", type=float, default=2e-5, help="learning rate")
    parser.add_argument("--weight-decay", type=float, default=0.01, help="for adamw")
    add_learning_rate_rule(parser)
    parser.add_argument(
        "--precision",
        choices=["fp32", "bf16"],
        default="fp32",
        help="bf16: autocast; parameters, gradients and optimizer stay in fp32",
    )
    add_epochs(parser, 64, "sentences")
    add_seed(parser)
    add_peak(parser)
    return parser
