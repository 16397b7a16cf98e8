"""What runs have learned: losses that are equivalent, those that are not, and those that are not known."""

import math
from pathlib import Path
from typing import Any

import pytest

from runner.records.record_facts import figures_of
from runner.report.notes import notes as notes_of
from runner.report.two_sides import NOT_COMPARABLE, to_notes
from tests.report.test_two_sides import verdict_of
from tests.support.records import Make
from tests.support.summaries import ONE, TWO, base, block, pair, row, run

UNKNOWN = "what was learned is not known, for want of an accuracy and of a loss"


def of_losses(ours: list[float], theirs: list[float], first: float = 0.0, name: str = "training loss") -> bool | str:
    """Return the verdict on a faster cell with these losses at the end."""
    runs = [run(t, accuracy=None, learned={name: [first or v, v]}) for t, v in zip(ONE, theirs, strict=True)]
    runs += [run(t, "1x2", 2, accuracy=None, learned={name: [first or v, v]}) for t, v in zip(TWO, ours, strict=True)]
    return row(runs).claimed


@pytest.mark.parametrize(
    ("ours", "theirs", "first", "claimed"),
    [
        ([0.5] * 3, [0.5] * 3, 0.0, True),
        ([3.04] * 3, [3.0] * 3, 0.0, True),  # 1.3%
        ([0.0003] * 3, [0.0001] * 3, 2.3, True),  # both have learned nearly all
        ([2.0, 2.2, 2.1], [2.1, 2.3, 2.2], 0.0, True),  # the repeats spread by as much
        ([-5.0] * 3, [-5.05] * 3, 0.0, True),
        ([9.9] * 3, [0.5] * 3, 0.0, "training loss differs: 9.9 against 0.5, by more than 0.01"),
        ([3.1] * 3, [3.0] * 3, 9.0, "training loss differs: 3.1 against 3, by more than 0.06"),
        ([0.0009] * 3, [0.0001] * 3, 0.01, "training loss differs: 0.0009 against 0.0001, by more than 1e-05"),
        ([1.0, 4.0, 7.0], [0.5, 1.5, 2.5], 0.0, "training loss differs: 4 against 1.5, by more than 0.15"),
        ([math.nan] * 3, [math.nan] * 3, 0.0, "training loss differs: nan against nan"),
        ([0.5, math.nan, 0.5], [0.5] * 3, 0.0, "training loss differs: nan against 0.5"),
    ],
)
def test_losses_that_are_equivalent_are_claimed_and_others_are_named_with_the_margin(
    ours: list[float], theirs: list[float], first: float, claimed: bool | str
) -> None:
    assert of_losses(ours, theirs, first) == claimed
    assert claimed is not True or of_losses(theirs, ours, first) is True


def test_two_versions_that_have_learned_unlike_much_are_not_comparable_in_either_way_of_making_them() -> None:
    for side in ({"side": ("c", "A", "a")}, {}):
        other = {"side": ("c", "B", "b")} if side else {}
        a = [run(t, repeat=n, accuracy=None, learned={"test loss": [2.0, 0.5]}, **side) for n, t in enumerate(ONE)]
        b = [run(t, repeat=n, accuracy=None, learned={"test loss": [2.0, 9.9]}, **other) for n, t in enumerate(TWO)]
        found = verdict_of(a, b)
        assert (found.verdict, found.why) == (NOT_COMPARABLE, "test loss differs: 9.9 against 0.5, by more than 0.01")


def test_the_last_evaluation_counts_before_the_training_loss() -> None:
    both = {"test loss": [2.0, 1.0], "training loss": [2.0, 1.0]}
    runs = base(accuracy=None, learned=both)
    assert row(runs + pair(accuracy=None, learned={**both, "training loss": [2.0, 0.1]})).claimed is True
    assert "test loss" in str(row(runs + pair(accuracy=None, learned={**both, "test loss": [2.0, 1.1]})).claimed)
    lacking = row(runs + pair(accuracy=None, learned={"training loss": [2.0, 1.0]})).claimed
    assert lacking == "test loss differs: none in 3 of 6 runs, the first of 1x2"


def test_an_accuracy_counts_before_every_loss() -> None:
    losses: dict[str, Any] = {"learned": {"test loss": [2.0, 1.0]}}
    assert row(base(**losses) + pair(learned={"test loss": [2.0, 1.4]})).claimed is True


def test_a_claim_on_runs_that_say_nothing_of_what_they_learned_says_so() -> None:
    runs = base(accuracy=None) + pair(accuracy=None)
    assert row(runs).claimed is True
    assert f"{UNKNOWN}: 1x2" in notes_of(block(runs))
    assert not [note for note in notes_of(block(base() + pair())) if "learned" in note]
    verdict = verdict_of(base(accuracy=None), base([6.0, 6.1, 5.9], accuracy=None))
    assert f"1x1: {UNKNOWN}" in to_notes([verdict], 0.05)


def test_the_figures_of_a_record_are_those_of_its_epochs_and_evaluations(make: Make, tmp_path: Path) -> None:
    record = make.run(tmp_path).read()
    record.metrics = {}
    record.epochs = [{"epoch_num": 1, "loss": 2.0}, {"epoch_num": 2, "loss": 1.0}, {"epoch_num": 3}]
    record.evaluations = [{"loss": 2.1}, {"loss": 1.1}]
    assert figures_of(record) == {"test loss": [2.1, 1.1], "training loss": [2.0, 1.0]}
    record.evaluations, record.metrics = [], {"final_loss": 0.9}
    assert figures_of(record) == {"training loss": [2.0, 0.9]}
    record.epochs, record.metrics = [{"epoch_num": 1, "loss": 2.0}, {"loss": None, "loss_hex": "nan"}], {}
    assert math.isnan(figures_of(record)["training loss"][1])
    record.epochs = []
    assert figures_of(record) == {}


def test_what_a_program_of_no_kit_prints_of_its_evaluation_counts(make: Make, tmp_path: Path) -> None:
    record = make.run(tmp_path).read()
    record.evaluations = []
    losses = [
        ("val_loss", 1.5, "test loss", 1.5),
        ("perplexity", math.e**2, "test loss", 2.0),
        ("bleu", 27, "bleu", 27),
    ]
    for metric, value, name, shown in losses:
        record.printed = {"final_eval": {"value": {"metric": metric, "value": value}, "log": "x", "line": 1}}
        assert figures_of(record) == {name: pytest.approx([shown, shown])}
    record.printed = {"final_eval": {"value": {"metric": "accuracy", "value": 0.9}, "log": "x", "line": 1}}
    assert figures_of(record) == {}
