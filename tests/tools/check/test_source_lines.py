"""The line to change, from the stack at which something was seen."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from runner.tools.check.observation import Place
from runner.tools.check.source_lines import epoch_loop, figure_line, iter_line, rate_line

RATE = """
    class Trainer:
        def __init__(self, model, lr):
            self.optimizer = SGD(
                model.parameters(),
                lr=lr,
            )

    def main():
        world = dist.get_world_size()
        args.lr *= world
        batch = args.batch * 2
        trainer = Trainer(model, args.lr)
        other = SGD(model.parameters(), lr=0.1 * world)
"""
SAMPLER = """
    class Shares:
        def __init__(self, rank):
            self.rank = rank

        def __iter__(self):
            order = list(range(self.size))
            given
"""
CUT = "order = order[self.rank :]\n            print(order)\n            return iter(order)"
FIGURE = """
    def evaluate(model):
        for x, y in loader:
            hits += model(x) == y
        return hits / total

    def main():
        accuracy = evaluate(model)
        print(accuracy)
"""
LOOPS = """
    for fold in range(5):
        for epoch in range(3):
            for x, y in loader:
                step(x, y)
"""


def printed(root: Path, place: Place) -> Place:
    """Find the line for a stack whose outermost frame is the call of print."""
    return figure_line(root, place[:-1] or place, place[-1:])


@pytest.mark.parametrize(
    ("find", "text", "frames", "line"),
    [
        (rate_line, RATE, ["__init__ self.optimizer", "main trainer ="], "args.lr *= world"),
        (rate_line, RATE, ["main other ="], "other = SGD(model.parameters(), lr=0.1 * world)"),
        (rate_line, RATE, ["__init__ self.optimizer"], "self.optimizer = SGD("),
        (
            iter_line,
            SAMPLER.replace("given", "return iter(order[: 5])"),
            ["__iter__ __iter__"],
            "return iter(order[: 5])",
        ),
        (iter_line, SAMPLER.replace("given", "yield from order"), ["__iter__ __iter__"], "yield from order"),
        (iter_line, SAMPLER.replace("given", CUT), ["__iter__ __iter__"], "order = order[self.rank :]"),
        (printed, FIGURE, ["evaluate hits +=", "main accuracy =", "main print"], "return hits / total"),
        (printed, FIGURE, ["main print"], "print(accuracy)"),
        (epoch_loop, LOOPS, ["<module> in loader"], "for epoch in range(3):"),
    ],
)
def test_the_line_to_change_is_found(
    tmp_path: Path, find: Callable[[Path, Place], Place], text: str, frames: list[str], line: str
) -> None:
    (tmp_path / "train.py").write_text(dedent(text))
    lines = dedent(text).splitlines()
    place = []
    for function, _, part in (frame.partition(" ") for frame in frames):
        place.append(["train.py", next(n for n, row in enumerate(lines, 1) if part in row), function])
    assert lines[find(tmp_path, place)[0][1] - 1].strip() == line
