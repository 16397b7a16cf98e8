"""The program `mnist.ddp` with at most one thing changed; every rank leaves the loss of each step in a file.

By hand:  torchrun --standalone --nproc-per-node 2 -m bench.numbers.training FOLDER CHANGE [args of mnist.ddp]

CHANGE is `none`, or one that no argument of the program makes: `contiguous` (the CPU's convolutions get their pixels in
the usual order, not channels last), `bf16` (autocast of the forward pass), `order` (only the order of the samples is
drawn from another seed).
"""

import json
import sys
from argparse import Namespace
from copy import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from experiments.mnist import ddp
from experiments.mnist.data import Batches
from experiments.mnist.training import Report
from experiments.mnist.training import build_model as build_channels_last
from trainkit.epochs import Totals
from trainkit.run import Run
from trainkit.sharding import Batch

CHANGES = ("none", "contiguous", "bf16", "order")
steps: list[list[float]] = []
"""Of each step: the sum of this rank's losses, and of how many samples."""
ended: dict[str, Any] = {}


class Autocast(nn.Module):
    """A model whose matrix products and convolutions are computed in bf16; its outputs are fp32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Return the model's outputs."""
        with torch.autocast(images.device.type, torch.bfloat16):
            outputs: Tensor = self.model(images)
        return outputs.float()


class OtherOrder(Batches):
    """The same batches' sizes and samples, in an order drawn from the next seed."""

    def __init__(self, samples: Any, args: Namespace, run: Run, *rest: Any) -> None:
        args = copy(args)
        args.seed += 1
        super().__init__(samples, args, run, *rest)


class Kept(Report):
    """The program's report, which also keeps how the training ended."""

    def finish(self, model: nn.Module) -> None:
        """Keep the accuracy of the last epoch, and report as always."""
        super().finish(model)
        ended.update(accuracy=self.accuracies[-1], samples=len(self.data.test), rank=self.run.rank)
        ended.update(parameters=self.run.require_equal_parameters(model))


def build_contiguous(args: Namespace, run: Run) -> nn.Module:
    """Build the model with its weights in PyTorch's usual order."""
    return build_channels_last(args, run).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload,no-any-return]


def build_autocast(args: Namespace, run: Run) -> nn.Module:
    """Build the model so that it computes in bf16."""
    return Autocast(build_channels_last(args, run))


def main() -> None:
    """Make the change, train, and leave what was measured in the folder."""
    folder, change = Path(sys.argv[1]), sys.argv[2]
    if change not in CHANGES:
        sys.exit(f"error: no change '{change}'; there are {', '.join(CHANGES)}")
    sys.argv[1:3] = []
    if change in ("contiguous", "bf16"):
        setattr(ddp, "build_model", build_contiguous if change == "contiguous" else build_autocast)  # noqa: B010 - not typed as a variable
    if change == "order":
        setattr(ddp, "Batches", OtherOrder)  # noqa: B010
    setattr(ddp, "Report", Kept)  # noqa: B010
    add = Totals.add

    def add_and_keep(self: Totals, batch: Batch, losses: Tensor, places: int = 0) -> None:
        steps.append([losses[: batch.samples].sum(dtype=torch.float64).item(), batch.samples])
        add(self, batch, losses, places)

    setattr(Totals, "add", add_and_keep)  # noqa: B010
    ddp.main()
    told = {**ended, "steps": steps, "torch": torch.__version__}
    (folder / f"rank{ended['rank']}.json").write_text(json.dumps(told), "utf-8")


if __name__ == "__main__":
    main()
