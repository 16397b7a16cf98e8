"""Measured differences -> docs/numbers.md."""

from __future__ import annotations

from collections.abc import Iterable

from bench.numbers.measure import ARGS, Change, Curve, compare
from runner.report.markup import markdown
from runner.report.statistics import accuracies_agree

HEAD = """# Numbers that do not repeat

`runner reproduce` asks for more than similar curves: level 2 is bit for bit the same, level 3 the same accuracy as far
as the test samples can say. This page shows what changes the numbers of a training and by how much, so that these
levels mean something. `python -m bench.numbers -o docs/numbers.md` measures it again and writes the page.

Floating-point addition is not associative: (a + b) + c and a + (b + c) differ in the last bits. Whatever changes the
order in which sums are made changes the last bits of a loss, and each step of the training starts from what the one
before has changed. What draws other random numbers makes another training from its first step.

"""
COLUMNS = ("changed", "first step that differs", "by", "largest difference", "at step", "at the last step", "right")
TAIL = """
- **right**: how many of the {samples} test samples the trained model gets right; the base gets {base}. Level 3 holds if
  that difference is no larger than what the choice of the test samples explains (95%).
- Losses are means over the samples of a step; the base's last one is {last:.4g}.
- What no run repeats between two machines is not in the table: another model of CPU or GPU, another BLAS.

## What follows

- **The same image, layout, threads and seed repeat bit for bit.** A record keeps all of them, `reproduce` sets them.
- **Threads, world size, memory format and torch's version change the order of sums.** Level 2 fails at the step that
  the table names, by the difference that it names; compare such runs at level 3.
- **bf16 rounds every product to 8 bits**, so its losses differ from the first step on, and by far more.
- **Another order of the samples or another seed is another training.** Its difference is the measure for a claimed
  gain: an accuracy that is better by less than that shows nothing.
"""


def page(base: Curve, found: Iterable[tuple[Change, Curve]], epochs: int, left_out: Iterable[str], machine: str) -> str:
    """Write the page.

    Args:
        base: the training that the others are compared with.
        found: the others.
        epochs: how many each of them has.
        left_out: what was not measured, and why.
        machine: what they ran on.
    """
    words = " ".join(f"--{key} {value}" for key, value in ARGS.items())
    lines = [
        f"The base: `mnist.ddp {words} --epochs {epochs}`,",
        f"one process with one thread, {len(base.losses)} steps; torch {base.torch}, {markdown(machine)}.",
        "",
        f"| {' | '.join(COLUMNS)} | levels |",
        f"|---|{'---:|' * (len(COLUMNS) - 1)}---|",
        *(_row(base, change, curve) for change, curve in found),
    ]
    lines += ["", *(f"Not measured: {why}" for why in left_out)] if left_out else []
    tail = TAIL.format(samples=base.samples, base=base.correct, last=base.losses[-1])
    return HEAD + "\n".join(lines) + "\n" + tail


def _row(base: Curve, change: Change, curve: Curve) -> str:
    found = compare(base, curve)
    same = found.first is None and base.parameters == curve.parameters
    agree = accuracies_agree(base.accuracy, base.samples, curve.accuracy, curve.samples)
    levels = "2, 3" if same else "3" if agree else "none"
    cells = [
        markdown(change.name),
        str(found.first or "none"),
        _size(found.first_difference),
        _size(found.largest),
        str(found.at or "none"),
        _size(found.last),
        str(curve.correct),
        levels,
    ]
    return f"| {' | '.join(cells)} |"


def _size(value: float) -> str:
    return f"{value:.1e}" if value else "0"
