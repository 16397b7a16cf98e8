"""Measured differences -> the table of docs/references.md."""

from collections.abc import Iterable
from pathlib import Path

from bench.numbers.measure import ARGS, Change, Curve, compare
from runner.report.markup import markdown
from runner.report.statistics import accuracies_agree

DOCUMENT = Path(__file__).parents[2] / "docs" / "references.md"
BEGIN, END = "<!-- table of numbers -->\n", "<!-- end of the table -->\n"
COLUMNS = ("changed", "first step that differs", "by", "largest difference", "at step", "at the last step", "right")


def write(document: str, base: Curve, found: Iterable[tuple[Change, Curve]], epochs: int, machine: str) -> str:
    """Put the table into a document, between its markers.

    Args:
        document: the text that has the markers.
        base: the training that the others are compared with.
        found: the others.
        epochs: how many each of them has.
        machine: what they ran on.
    """
    words = " ".join(f"--{key} {value}" for key, value in ARGS.items())
    lines = [
        f"The base: `mnist.ddp {words} --epochs {epochs}`,",
        f"one process with one thread, {len(base.losses)} steps; torch {base.torch}, {markdown(machine)}.",
        f"Its last loss is {base.losses[-1]:.4g}; it gets {base.correct} of {base.samples} test samples right.",
        "",
        f"| {' | '.join(COLUMNS)} | levels |",
        f"|---|{'---:|' * (len(COLUMNS) - 1)}---|",
        *(_row(base, change, curve) for change, curve in found),
    ]
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n".join(lines) + "\n" + END + after


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
