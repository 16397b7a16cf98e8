"""The line that has to be changed, from the lines that lead to what was seen."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from runner.tools.check.observation import Place
from runner.tools.check.source_lines import epoch_loop, figure_line, iter_line, rate_line


def named(folder: Path, text: str, find: Callable[[Path, Callable[..., Place]], Place]) -> str:
    """Return the text of the line that is found in a program; places are given by text and function."""
    (folder / "train.py").write_text(dedent(text))
    lines = (folder / "train.py").read_text().splitlines()

    def place(*frames: tuple[str, str]) -> Place:
        return [[next(n for n, line in enumerate(lines, 1) if part in line), name] for part, name in frames]

    def whole(*frames: tuple[str, str]) -> Place:
        return [["train.py", number, name] for number, name in place(*frames)]

    (frame,) = find(folder, whole)[:1]
    return lines[frame[1] - 1].strip()


Frame = tuple[str, str]
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


@pytest.mark.parametrize(
    ("frames", "line"),
    [
        ([("self.optimizer", "__init__"), ("trainer =", "main")], "args.lr *= world"),
        ([("other =", "main")], "other = SGD(model.parameters(), lr=0.1 * world)"),
        ([("self.optimizer", "__init__")], "self.optimizer = SGD("),
    ],
)
def test_a_scaled_rate_is_named_where_it_is_multiplied(
    tmp_path: Path, frames: list[tuple[str, str]], line: str
) -> None:
    assert named(tmp_path, RATE, lambda root, place: rate_line(root, place(*frames))) == line


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("return iter(order[: len(self)])", "return iter(order[: len(self)])"),
        ("yield from order", "yield from order"),
        (
            "order = order[self.rank :]\n            print(order)\n            return iter(order)",
            "order = order[self.rank :]",
        ),
    ],
)
def test_an_own_sampler_is_named_where_it_gives_out(tmp_path: Path, given: str, line: str) -> None:
    text = f"""
    class Shares:
        def __init__(self, rank):
            self.rank = rank

        def __iter__(self):
            order = list(range(self.size))
            {given}
    """
    assert named(tmp_path, text, lambda root, place: iter_line(root, place(("__iter__", "__iter__")))) == line


def test_a_figure_of_a_part_is_named_where_it_is_computed(tmp_path: Path) -> None:
    text = """
    def evaluate(model):
        for x, y in loader:
            hits += model(x) == y
        return hits / total

    def main():
        accuracy = evaluate(model)
        print(accuracy)
    """
    frames, said = [("hits +=", "evaluate"), ("accuracy =", "main")], ("print", "main")
    assert named(tmp_path, text, lambda root, at: figure_line(root, at(*frames), at(said))) == "return hits / total"
    assert named(tmp_path, text, lambda root, at: figure_line(root, at(said), at(said))) == "print(accuracy)"


def test_a_missing_set_epoch_is_named_at_the_loop_over_epochs_not_over_folds(tmp_path: Path) -> None:
    text = """
    for fold in range(5):
        for epoch in range(3):
            for x, y in loader:
                step(x, y)
    """
    loop = named(tmp_path, text, lambda root, place: epoch_loop(root, place(("in loader", "<module>"))))
    assert loop == "for epoch in range(3):"
