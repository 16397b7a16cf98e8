"""ResNet50 split over two devices without a pipeline: while one works, the other waits.

By hand:  python -m experiments.resnet50.split --batch-size 8 --image-size 64
"""

from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from experiments.resnet50.arguments import require_sense, resnet_parser
from experiments.resnet50.model import build_resnet50, halves
from experiments.resnet50.training import devices_of, train
from trainkit.arguments import add_devices
from trainkit.errors import Refusal
from trainkit.run import running


@record
def main() -> None:
    """Parse the arguments and train."""
    parser = resnet_parser(__doc__)
    add_devices(parser, 2, "GPUs of the two halves; one CPU replaces both")
    args = parser.parse_args()
    with running("resnet50.split", args, devices=2, cpu_stands_in=True) as run:
        require_sense(args)
        if args.micro_batches > 1:
            raise Refusal("resnet50.split does not support micro-batches: use resnet50.pipelined")
        with run.phase("setup"):
            model = build_resnet50(args.seed)
            here, there = devices_of(run)
            first, second = halves(model)
            first.to(here)
            second.to(there)

        def forward(images: Tensor) -> Tensor:
            outputs: Tensor = second(first(images).to(there))
            return outputs

        train(run, args, model, forward)


if __name__ == "__main__":
    main()
