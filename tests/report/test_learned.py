"""What runs have learned: losses that are equivalent, those that are not, and those that are not known."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from runner.records.record_facts import figures_of
from runner.records.schema import Record
from tests.support.records import make_launch
from tests.support.summaries import base, pair, row


def of_losses(ours: list[float], theirs: list[float], first: float) -> bool | str:
    """Return the verdict on a faster cell with these losses at the end."""
    return row(
        [
            replace(each, accuracy=None, learned={"training loss": [first or loss, loss]})
            for each, loss in zip(base() + pair(), theirs + ours, strict=True)
        ]
    ).claimed


@pytest.mark.parametrize(
    ("ours", "theirs", "first", "claimed"),
    [
        ([0.5] * 3, [0.5] * 3, 0.0, True),
        ([0.0003] * 3, [0.0001] * 3, 2.3, True),  # both have learned nearly all
        ([2.0, 2.2, 2.1], [2.1, 2.3, 2.2], 0.0, True),  # the repeats spread by as much
        ([9.9] * 3, [0.5] * 3, 0.0, "training loss differs: 9.9 against 0.5, by more than 0.01"),
        ([3.1] * 3, [3.0] * 3, 9.0, "training loss differs: 3.1 against 3, by more than 0.06"),
        ([1.0, 4.0, 7.0], [0.5, 1.5, 2.5], 0.0, "training loss differs: 4 against 1.5, by more than 0.15"),
        ([0.5, math.nan, 0.5], [0.5] * 3, 0.0, "training loss differs: nan against 0.5"),
    ],
)
def test_losses_that_are_equivalent_are_claimed_and_others_are_named_with_the_margin(
    ours: list[float], theirs: list[float], first: float, claimed: bool | str
) -> None:
    assert of_losses(ours, theirs, first) == claimed
    assert claimed is not True or of_losses(theirs, ours, first) is True


BOTH = {"test loss": [2.0, 1.0], "training loss": [2.0, 1.0]}


@pytest.mark.parametrize(
    ("accuracy", "learned", "claimed"),
    [
        (None, {**BOTH, "training loss": [2.0, 0.1]}, True),  # the last evaluation counts
        (None, {**BOTH, "test loss": [2.0, 1.1]}, "test loss differs: 1.1 against 1, by more than 0.02"),
        (None, {"training loss": [2.0, 1.0]}, "test loss differs: missing in 3 of 6 runs, the first of 1x2"),
        (0.95, {"test loss": [2.0, 1.4]}, True),  # an accuracy counts before every loss
    ],
)
def test_the_most_telling_figure_counts(accuracy: Any, learned: Any, claimed: bool | str) -> None:
    runs = base(accuracy=accuracy, learned=BOTH) + pair(accuracy=accuracy, learned=learned)
    assert row(runs).claimed == claimed


TWO_LOSSES = [{"epoch_num": 1, "loss": 2.0}, {"epoch_num": 2, "loss": 1.0}, {"epoch_num": 3}]
PRINTED = {"final_eval": {"value": {"metric": "perplexity", "value": math.e**2}, "log": "x", "line": 1}}


@pytest.mark.parametrize(
    ("said", "figures"),
    [
        (
            {"epochs": TWO_LOSSES, "evaluations": [{"loss": 2.1}, {"loss": 1.1}]},
            {"test loss": [2.1, 1.1], "training loss": [2.0, 1.0]},
        ),
        ({"epochs": TWO_LOSSES, "metrics": {"final_loss": 0.9}}, {"training loss": [2.0, 0.9]}),
        ({"epochs": [TWO_LOSSES[0], {"loss": None, "loss_hex": "nan"}]}, {"training loss": [2.0, math.nan]}),
        ({"printed": PRINTED}, {"test loss": [2.0, 2.0]}),
    ],
)
def test_the_figures_of_a_record_are_those_of_its_epochs_its_evaluations_and_what_a_script_prints(
    said: Any, figures: Any
) -> None:
    record = Record(launch=make_launch(), status="completed", **said)
    assert figures_of(record) == {name: pytest.approx(ends, nan_ok=True) for name, ends in figures.items()}
