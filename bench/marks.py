"""What it costs a training step to report where the time goes: CPU time of steps with marks and without, in pairs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.timing import interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainkit.time_use import TimeUse

PAIRS = 30
STEPS = 10
BATCH = 64
GOAL = 1.0
"""Per cent of the step of a small model; a larger one has as many marks."""


def main() -> None:
    """Print what the marks of a step add to the step of MNIST's usual model, by DDP in one process."""
    import torch  # noqa: PLC0415 - seconds
    from torch.nn.functional import cross_entropy  # noqa: PLC0415
    from torch.nn.parallel import DistributedDataParallel  # noqa: PLC0415

    from experiments.mnist.model import MODELS  # noqa: PLC0415
    from trainkit import distributed  # noqa: PLC0415
    from trainkit.ddp_time import find_ddp  # noqa: PLC0415
    from trainkit.epochs import Totals  # noqa: PLC0415
    from trainkit.run import make_repeatable  # noqa: PLC0415
    from trainkit.time_use import TimeUse  # noqa: PLC0415

    device = torch.device("cpu")
    make_repeatable(device, 1)
    distributed.join_process_group("gloo", distributed.Place(), device)
    model = DistributedDataParallel(MODELS["conv2-fc500"]())
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.ones(BATCH, 1, 28, 28), torch.zeros(BATCH, dtype=torch.long)
    use = TimeUse(device)
    stop = find_ddp(use)

    def steps() -> None:
        totals = Totals(torch.zeros(()), lambda _: None, time_use=use)
        for images, labels in totals.timed([batch] * STEPS):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()

    def marked() -> None:
        use.open()
        steps()
        use.close()

    _seconds(marked), _seconds(steps), stop()
    shares = []
    for number in range(PAIRS):
        if number % 2:
            without, with_marks = _seconds(steps), _seconds(marked)
        else:
            with_marks, without = _seconds(marked), _seconds(steps)
        shares.append(100 * (with_marks - without) / without)
    torch.distributed.destroy_process_group()
    cost = interval(shares)
    alone = _marks_alone(use)
    print(
        f"marks: they add {cost.text('%')} CPU time to a step of {1000 * without / STEPS:.1f} ms (goal: at most"
        f" {GOAL:g}%), {PAIRS} ABBA pairs of {STEPS} steps; the marks of a step alone take {alone:.1f} us"
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _marks_alone(use: TimeUse) -> float:
    """Time the four marks of a step without a step."""
    from trainkit.time_use import COMPUTE, DATA, EXCHANGE  # noqa: PLC0415

    use.open()
    began = time.process_time()
    for _ in range(10_000):
        use.begin(DATA)
        use.begin(COMPUTE)
        use.begin(EXCHANGE)
        use.begin(COMPUTE, ends_step=True)
    seconds = time.process_time() - began
    use.close()
    return seconds / 10_000 * 1e6
