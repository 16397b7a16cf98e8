"""Samples a second of MNIST training with --loader resident against --loader torchvision.

By hand:  python -m bench loader, or PYTHONPATH=. python -m bench.loader [--data-dir data] [--pairs 5] [--steps 30]

Both in one process, in turns, each pair of times being neighbours: the model conv2-fc500 with Adam,
batch 512, on the CPU with one thread. The goal is a ratio of at least 2.
"""

import math
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).parents[1]))
from experiments.mnist import data
from experiments.mnist.arguments import DATA, mnist_parser
from experiments.mnist.training import build_model, build_optimizer
from trainkit.errors import Refusal
from trainkit.run import Run, make_repeatable

BATCH = 512
LOADERS = ("resident", "torchvision")


def main(words: Sequence[str] = ()) -> None:
    """Measure the pairs and print their ratio."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", default=str(DATA))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30, help="of each time that is taken")
    asked = parser.parse_args(words)
    args = mnist_parser(None).parse_args(["--device", "cpu", "--data-dir", asked.data_dir])
    run = Run("bench", args)
    make_repeatable(run.device, threads=1)
    samples = load(args, run)
    speeds: dict[str, list[float]] = {loader: [] for loader in LOADERS}
    for pair in range(asked.pairs + 1):
        for loader in LOADERS:
            speed = samples_per_second(Namespace(**{**vars(args), "loader": loader}), run, samples,
                                       asked.steps)  # fmt: skip
            if pair:  # the first pair warms up
                speeds[loader].append(speed)
    for loader in LOADERS:
        print(f"{loader:12} {mean(speeds[loader]):8,.0f} samples/s")
    ratios = [fast / slow for fast, slow in zip(*speeds.values(), strict=True)]
    print(f"ratio        {mean(ratios):8.2f}  ({min(ratios):.2f} to {max(ratios):.2f}; goal 2)")


def load(args: Namespace, run: Run) -> data.Samples:
    """Return MNIST's training set or, if it is not there, noise of the same shapes."""
    try:
        return data.load(args, run).train
    except Refusal as refusal:
        print(f"synthetic images of MNIST's shapes are used: {refusal}")
        count, side = data.COUNTS["mnist"][0], data.SIDE
        pixels = torch.randint(256, (count, side, side), dtype=torch.uint8)
        return data.Samples(pixels, torch.randint(10, (count,)), *data.NORMALISE["mnist"])


def samples_per_second(args: Namespace, run: Run, samples: data.Samples, steps: int) -> float:
    """Train for some steps; the clock starts after two, which set up the loader and the optimizer."""
    model = build_model(args, run)
    optimizer = build_optimizer(args, model)
    began = 0.0
    for number, batch in enumerate(islice(data.Batches(samples, args, run, BATCH).epoch(1), steps + 2)):
        optimizer.zero_grad()
        cross_entropy(model(batch.images), batch.labels).backward()
        optimizer.step()
        if number == 1:
            began = time.perf_counter()
    return steps * BATCH / (time.perf_counter() - began)


def mean(values: list[float]) -> float:
    """Return the geometric mean, which suits speeds and ratios."""
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    main(sys.argv[1:])
