"""Sentences a second of fine-tuning BERT: the published script's way against ours, stage by stage.

By hand:  python -m bench bert, or PYTHONPATH=. python -m bench.bert [--data-dir data] [--pairs 3] [--steps 12]

All in one process, in turns, so that the times of a round are neighbours; the model and the sentences are those of
`runner prepare bert`, batches of 64, Adam. Each stage adds to the one before it; those in bf16 are the default programs
and all of them together. The goal is 2.2 in fp32, and 4 where the device computes in bf16, which is half of it.

On a CPU the time is this process's own, so that other work on the machine takes none of it.
"""

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import geometric_mean as mean

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from experiments.bert import data, split_per_rank
from experiments.bert.arguments import DATA, bert_parser
from experiments.bert.data import Batches, add_less_work, load
from experiments.bert.model import autocast, build_model, build_optimizer
from experiments.bert.sentences import read, split
from trainkit.errors import Refusal
from trainkit.run import Run, make_repeatable
from trainkit.sharding import epoch_order

BATCH = 64
GOAL, GOAL_IN_BF16 = 2.2, 4
SHORTER = {"last_layer": "first-token"}
SHORTEST = {**SHORTER, "vocabulary": "used"}


@dataclass(frozen=True)
class Stage:
    """A way to train: options of the programs, batches by length or random, Adam by blocks or torch's."""

    options: Mapping[str, str] = field(default_factory=dict)
    by_length: bool = True
    plain: bool = False


STAGES = {
    "tokenised once": Stage(by_length=False, plain=True),
    "by length": Stage(plain=True),
    "Adam by blocks": Stage(),
    "first token": Stage(SHORTER),
    "used words": Stage(SHORTEST),
}
"""By what a stage adds; "Adam by blocks" is what the programs do by default."""
HALF = {"default, bf16": Stage({"precision": "bf16"}), "all, bf16": Stage({**SHORTEST, "precision": "bf16"})}


def main(words: Sequence[str] = ()) -> None:
    """Measure the rounds and print every stage's ratio to the first."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", default=str(DATA))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12, help="of each time that is taken")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args(words)
    parser = bert_parser(None)
    add_less_work(parser)
    args = parser.parse_args(["--data-dir", asked.data_dir, "--threads", str(asked.threads)])
    run = Run("bench", args)
    make_repeatable(run.device, asked.threads)
    try:
        loaded = load(args, run)
    except Refusal as refusal:
        print(f"bert: {refusal}")
        return
    stages: dict[str, Callable[[int], float]] = {
        "as published": lambda turn: theirs(args, run, loaded, asked.steps, turn)
    }
    for name, way in {**STAGES, **(HALF if computes_in_bf16(run) else {})}.items():
        chosen = Namespace(**{**vars(args), **way.options})
        fewer = load(chosen, run) if "vocabulary" in way.options else loaded
        stages[name] = partial(ours, chosen, run, fewer, asked.steps, way)
    speeds: dict[str, list[float]] = {stage: [] for stage in stages}
    for turn in range(asked.pairs):
        for stage, measure in stages.items():
            speeds[stage].append(measure(turn))
    first = speeds["as published"]
    for stage, own in speeds.items():
        ratios = [fast / slow for fast, slow in zip(own, first, strict=True)]
        print(
            f"{stage:14} {mean(own):8,.1f} sentences/s, x {mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )
    print(f"goals: {GOAL} in fp32, {GOAL_IN_BF16} in bf16")
    if not computes_in_bf16(run):
        print("this CPU does not compute in bf16")


def computes_in_bf16(run: Run) -> bool:
    """Tell whether bf16 is faster than fp32 on the device."""
    if run.device.type == "cuda":
        return torch.cuda.get_device_capability()[0] >= 8  # from A100 on
    flags = Path("/proc/cpuinfo").read_text("utf-8").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def theirs(args: Namespace, run: Run, loaded: data.Data, steps: int, turn: int) -> float:
    """Return the speed of the published script's steps, tokenising included."""
    sentences = read(args.data_dir)
    index, _ = split(len(sentences.texts), args.seed)
    loader = split_per_rank.build_loader(index, sentences, loaded.folder, run, BATCH)
    loader.sampler.set_epoch(turn)  # type: ignore[attr-defined]
    batches = ((inputs.to(run.device), labels.to(run.device)) for inputs, labels in islice(loader, steps + 1))
    return sentences_per_second(args, run, loaded, batches)


def ours(args: Namespace, run: Run, loaded: data.Data, steps: int, stage: Stage, turn: int) -> float:
    """Return the speed of our steps: on random batches, or on batches by length, evenly spread over all lengths."""
    batches = Batches(loaded.train, args.seed, run, BATCH)
    if stage.by_length:
        dealt = list(batches.longest_first())
        chosen = [dealt[(2 * number + 1) * len(dealt) // (2 * steps)] for number in range(steps)]
    else:
        chosen = list(islice(batches.dealt(epoch_order(len(loaded.train), args.seed, turn)), steps))
    pairs = (
        ({"input_ids": batch.tokens, "attention_mask": batch.mask}, batch.labels) for batch in [chosen[0], *chosen]
    )
    return sentences_per_second(args, run, loaded, pairs, plain=stage.plain)


def sentences_per_second(
    args: Namespace,
    run: Run,
    loaded: data.Data,
    batches: Iterable[tuple[Mapping[str, Tensor], Tensor]],
    *,
    plain: bool = True,
) -> float:
    """Train on the batches and return the speed; the clock starts after the first one."""
    model = build_model(loaded.folder, args, run, loaded.words)
    optimizer = build_optimizer(args, model, 1, plain=plain)
    clock = time.perf_counter if run.device.type == "cuda" else time.process_time
    threads = 1 if run.device.type == "cuda" else torch.get_num_threads()
    began, trained = 0.0, 0
    for number, (inputs, labels) in enumerate(batches):
        with autocast(args, run):
            logits = model(**inputs).logits
        loss = cross_entropy(logits.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number == 0:
            run.synchronise()
            began = clock()
        else:
            trained += len(labels)
    run.synchronise()
    return trained * threads / (clock() - began)


if __name__ == "__main__":
    main(sys.argv[1:])
