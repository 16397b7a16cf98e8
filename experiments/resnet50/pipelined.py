"""ResNet50 split over two devices as a pipeline: both work at the same time, on successive micro-batches.

By hand:  python -m experiments.resnet50.pipelined --micro-batches 4 --batch-size 8 --image-size 64
"""

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from experiments.resnet50.arguments import require_sense, resnet_parser
from experiments.resnet50.model import build_resnet50, halves
from experiments.resnet50.training import devices_of, train
from trainkit.arguments import add_devices
from trainkit.run import running


@record
def main() -> None:
    """Parse the arguments and train."""
    parser = resnet_parser(__doc__)
    add_devices(parser, 2, "GPUs of the two halves; one CPU replaces both")
    args = parser.parse_args()
    with running("resnet50.pipelined", args, devices=2, cpu_stands_in=True) as run:
        require_sense(args)
        with run.phase("setup"):
            model = build_resnet50(args.seed)
            here, there = devices_of(run)
            first, second = halves(model)
            first.to(here)
            second.to(there)

        def forward(images: Tensor) -> Tensor:
            parts = iter(images.tensor_split(args.micro_batches))
            crossing = first(next(parts)).to(there)
            outputs = []
            for part in parts:
                # On GPUs both lines return before the work is done, so the two devices work at the same time.
                outputs.append(second(crossing))
                crossing = first(part).to(there)
            outputs.append(second(crossing))
            return torch.cat(outputs)  # backward is pipelined too, with one autograd thread per device

        train(run, args, model, forward)


if __name__ == "__main__":
    main()
