"""Blocks -> what a reader of the table has to know besides."""

import msgspec
import pytest

from runner.report.notes import notes as notes_of
from runner.report.statistics import more_for_width, repeats_to_find
from tests.report.test_compare import more
from tests.support.summaries import ONE, SAME, base, block, changed, pair, row

NARROWER = "more repeats for +-5%, of a cell and of its baseline"


def test_the_repeats_that_would_show_a_difference_are_as_many_as_the_side_with_fewer_runs_lacks() -> None:
    many = [10 + 0.1 * (number % 5 - 2) for number in range(60)]
    few = [msgspec.structs.replace(run, began=29 * (run.began or 0.0)) for run in pair([9.0, 10.1, 9.6])]
    runs = base(many) + few
    difference = row(runs).difference
    needed = repeats_to_find(difference, abs(difference.log))
    assert more(runs)[-1].endswith(f"1x2: {needed - 3}")


def test_the_repeats_that_are_proposed_are_enough_for_the_claim_beside_the_other_rows_of_the_table() -> None:
    open_ = [9.6, 10.2, 9.9]
    others = [run for processes in (3, 4, 5, 6) for run in pair(open_, layout=f"1x{processes}", processes=processes)]
    alone, among = more(base() + pair(open_)), more(base() + pair(open_) + others)
    difference = row(base() + pair(open_)).difference
    for (narrower, clearer), tests in ((alone, 1), (among, 5)):
        needed = repeats_to_find(difference, abs(difference.log), tests=tests)
        assert narrower.split("; ")[0] == f"{NARROWER}: 1x2: {more_for_width(difference, 0.05, tests)}"
        assert clearer.split("; ")[0].endswith(f"1x2: {needed - 3}")
    assert alone[0] != among[0].split("; ")[0]


def test_a_figure_of_the_load_that_a_run_lacks_is_no_zero() -> None:
    whole, part = {"cpu_percent": 50.0, "gpu_percent": 90.0}, {"cpu_percent": 70.0}
    found = row(base() + changed(pair(load=whole), load=part))
    assert found.load == {"cpu_percent": pytest.approx((50 + 50 + 70) / 3), "gpu_percent": 90.0}


def test_a_claim_on_records_that_name_no_code_has_a_note() -> None:
    unknown = {"same": {**SAME, "code": "None"}}
    said = "code unknown, and taken for the same: 1x2"
    assert said in notes_of(block(base(**unknown) + pair(**unknown)))
    assert not [note for note in notes_of(block(base() + pair())) if "code" in note]
    assert not [note for note in notes_of(block(base(**unknown) + pair(ONE, **unknown))) if "code" in note]
