"""Measure the CPU time that marks of `TimeUse` add to a training step, in pairs with and without marks.

A step has the same number of marks for any model. So their cost is measured on a nearly empty step, where it is a large
part, and compared with the step of a small model, where a cost below one percent would be lost in noise.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from bench.timing import in_turn
from experiments.mnist.model import MODELS
from trainkit import distributed
from trainkit.ddp_time import find_ddp
from trainkit.epochs import Totals
from trainkit.run import make_repeatable
from trainkit.time_use import TimeUse

PAIRS = 60
STEPS = 100
BATCH = 64
GOAL = 1.0
"""Percent of a small model's step."""


def main() -> None:
    """Print the time that marks add to a step and to an epoch, and its share of a step of MNIST's default model."""
    device = torch.device("cpu")
    make_repeatable(device, 1)
    distributed.join_process_group("gloo", distributed.Place(), device)
    use = TimeUse(device)
    batch = torch.ones(BATCH, 1, 28, 28), torch.zeros(BATCH, dtype=torch.long)
    least = torch.ones(1, 2), torch.zeros(1, dtype=torch.long)
    usual = _steps(MODELS["conv2-fc500"](), batch, 10)
    plain = _steps(nn.Linear(2, 2), least, STEPS)
    stop = find_ddp(use)
    marked = _steps(nn.Linear(2, 2), least, STEPS, use)
    use.open()
    marked(), stop()  # stop before the other models are called, so that they are not watched
    plain(), usual()
    pairs = in_turn(lambda: _seconds(marked), lambda: _seconds(plain), PAIRS)
    added = [(with_marks - without) / STEPS * 1e6 for with_marks, without in pairs]
    use.close()
    step = min(_seconds(usual) for _ in range(10)) / 10 * 1e6
    epoch = statistics.median(_seconds(partial(_epoch, use)) for _ in range(100)) * 1e3
    torch.distributed.destroy_process_group()
    cost = statistics.median(added)
    print(
        f"marks: they add {cost:+.1f} us CPU time to a step, {100 * cost / step:+.2f}% of one of {step / 1e3:.1f} ms"
        f" (goal: at most {GOAL:g}%), and {epoch:.2f} ms to an epoch; median of {PAIRS} ABBA pairs of {STEPS} steps"
    )


def _steps(model: Any, batch: tuple[Tensor, Tensor], steps: int, use: TimeUse | None = None) -> Callable[[], None]:
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(ddp.parameters())

    def train() -> None:
        totals = Totals(torch.zeros(()), lambda _: None, time_use=use)
        for images, labels in totals.timed([batch] * steps):
            optimizer.zero_grad()
            cross_entropy(ddp(images), labels).backward()
            optimizer.step()

    return train


def _epoch(use: TimeUse) -> None:
    use.open()
    use.close()
    use.result(1.0)


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
