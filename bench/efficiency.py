"""How close two processes of MNIST's DDP, one thread each, come to twice one; and what takes the rest.

By hand:  python -m bench efficiency, or PYTHONPATH=. python -m bench.efficiency [--data-dir data] [--rounds 40]

Two processes live through the whole measurement, and take turns of a few steps of 512 samples each: one of them alone,
as a DDP of one process, while the other sleeps; both at once, each for itself; both with what DDP exchanges, gradients
copied into its buckets or lying in them. So the times of a round are neighbours.
The goal is an efficiency of 0.9; it cannot be above that of two processes that exchange nothing.

Other work on the machine takes one of the cores now and then, and then both processes wait. So beside the median of
all rounds stand the best quarter of each turn's times, and the processor time of a process, which has no waiting in it.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from experiments.mnist import data
from experiments.mnist.arguments import DATA, mnist_parser
from experiments.mnist.training import build_model, build_optimizer
from trainkit.errors import Refusal
from trainkit.run import Run, make_repeatable

BATCH, STEPS, GOAL = 512, 4, 0.9
ALONE, BESIDE = "one alone", "two, nothing exchanged"
EXCHANGING = {"two, gradients copied": False, "two, gradients in the buckets": True}
"""The last is what the programs do."""


def main(words: Sequence[str] = ()) -> None:
    """Start the two processes; the first one prints."""
    ranks = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run(
        [*ranks, "-m", "bench.efficiency", *words],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
    )


def of_rank(words: Sequence[str]) -> None:
    """Take the turns; rank 0 prints what they took."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", default=str(DATA))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path, help="write all times here, in milliseconds of a step")
    asked = parser.parse_args(words)
    args = mnist_parser(None).parse_args(["--device", "cpu", "--data-dir", asked.data_dir])
    run = Run("bench", Namespace(**vars(args), backend="gloo"))
    make_repeatable(run.device, threads=1)
    dist.init_process_group("gloo")
    turns = prepared(args, run)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in turns}
    for number in range(asked.rounds + 2):
        for name, step in turns.items():
            taken = milliseconds(step, idle=name == ALONE and run.rank > 0)
            if number > 1:  # the first two warm up
                times[name].append(taken)
    if run.first:
        report(times)
        if asked.json:
            asked.json.write_text(json.dumps(times))
    dist.destroy_process_group()


def prepared(args: Namespace, run: Run) -> dict[str, Callable[[], None]]:
    """Return what each turn repeats: `STEPS` steps of a model of its own."""
    own = [dist.new_group([rank]) for rank in range(run.world_size)][run.rank]
    batches = list(islice(data.Batches(load(args, run), args, run, BATCH * run.world_size).epoch(1), STEPS))

    def trained(wrapped: Callable[[nn.Module], nn.Module]) -> Callable[[], None]:
        bare = build_model(args, run)
        model, optimizer = wrapped(bare), build_optimizer(args, bare)

        def steps() -> None:
            for batch in batches:
                optimizer.zero_grad()
                cross_entropy(model(batch.images), batch.labels).backward()
                optimizer.step()

        return steps

    apart = partial(DistributedDataParallel, process_group=own, gradient_as_bucket_view=True)
    turns = {name: trained(apart) for name in (ALONE, BESIDE)}
    for name, view in EXCHANGING.items():
        turns[name] = trained(partial(DistributedDataParallel, gradient_as_bucket_view=view))
    return turns


def load(args: Namespace, run: Run) -> data.Samples:
    """Return MNIST's training set or, if it is not there, noise of the same shapes."""
    try:
        return data.load(args, run).train
    except Refusal as refusal:
        print(f"synthetic images of MNIST's shapes are used: {refusal}")
        count, side = data.COUNTS["mnist"][0], data.SIDE
        pixels = torch.randint(256, (count, side, side), dtype=torch.uint8)
        return data.Samples(pixels, torch.randint(10, (count,)), *data.NORMALISE["mnist"])


def milliseconds(steps: Callable[[], None], *, idle: bool) -> tuple[float, float]:
    """Return the wall time of a step, that of the slower rank, and the processor time of it in this process."""
    dist.barrier()
    began, used = time.perf_counter(), time.process_time()
    if not idle:
        steps()
    taken = torch.tensor([time.perf_counter() - began])
    used = time.process_time() - used
    dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    return 1000 * taken.item() / STEPS, 1000 * used / STEPS


def report(times: dict[str, list[tuple[float, float]]]) -> None:
    """Print each turn's times, and its efficiency: one process alone over two at once."""
    title = f"a step of {BATCH} each"
    print(f"{title:30} {'median':>9} {'best quarter':>13} {'processor':>10}   efficiency by each")
    alone = figures(times[ALONE])
    for name, taken in times.items():
        own = figures(taken)
        shares = ", ".join(f"{first / second:.3f}" for first, second in zip(alone, own, strict=True))
        print(f"{name:30} {own[0]:6.1f} ms {own[1]:10.1f} ms {own[2]:7.1f} ms   {shares}")
    print(f"goal: {GOAL}")


def figures(taken: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Return the median of wall times, the mean of their best quarter, and the median of processor times."""
    walls, used = zip(*taken, strict=True)
    quarter = sorted(walls)[: max(1, len(walls) // 4)]
    return statistics.median(walls), statistics.fmean(quarter), statistics.median(used)


if __name__ == "__main__":
    of_rank(sys.argv[1:])
