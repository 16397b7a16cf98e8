"""ResNet50 on one device: the baseline of the other programs.

By hand:  python -m experiments.resnet50.whole --batch-size 8 --image-size 64
"""

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from experiments.resnet50.arguments import require_sense, resnet_parser
from experiments.resnet50.model import build_resnet50
from experiments.resnet50.training import train
from trainkit.run import running


@record
def main() -> None:
    """Parse the arguments and train."""
    args = resnet_parser(__doc__).parse_args()
    with running("resnet50.whole", args) as run:
        require_sense(args)
        with run.phase("setup"):
            model = build_resnet50(args.seed).to(run.device)

        def forward(images: Tensor) -> Tensor:
            return torch.cat([model(part) for part in images.tensor_split(args.micro_batches)])

        train(run, args, model, forward)


if __name__ == "__main__":
    main()
