"""Copies of records beside the runs that they were made of: no repeat is counted twice."""

import shutil
from pathlib import Path

import pytest

from runner.report.notes import notes as notes_of
from runner.report.summarize import summarize
from runner.report.two_sides import exit_code, judge, to_notes
from tests.support.records import Make
from tests.support.summaries import run


def test_copies_of_one_run_are_no_repeats_of_it(results: Path, make: Make) -> None:
    make.run(results, 10.0)
    make.run(results, 6.0, layout="1x2")
    for name in ("backup", "older backup"):
        shutil.copytree(results / "tiny", results / name)
    (found,) = summarize(results)[0]
    assert [len(row.runs) for row in found.rows] == [1, 1]
    assert "n = 1" in str(found.rows[1].claimed)
    for row in found.rows:
        assert any(f"{row.first.cell}: 2 copies" in note for note in notes_of(found))


def test_runs_that_somebody_gave_one_id_are_repeats_if_they_began_at_other_times(results: Path, make: Make) -> None:
    for place in ("tiny", "one", "two"):
        make.run(results, 10.0, id="imported")
        (results / "tiny").rename(results / f"{place} of three")
    (found,) = summarize(results)[0]
    assert (len(found.rows[0].runs), found.rows[0].copies) == (3, ())


BEFORE, AFTER, OTHER = (
    [run(10 * value, id=f"{value}", began=1000 * turn + 100 * value) for turn, value in enumerate(side, first)]
    for first, side in ((0, (1.0, 1.01, 0.99)), (0, (1.2, 1.21, 1.19)), (3, (1.1, 1.11, 1.12)))
)


@pytest.mark.parametrize(
    ("a", "b", "counted", "code"),
    [
        (BEFORE + OTHER, AFTER + OTHER, [3, 3], 1),
        (BEFORE + AFTER[:1], AFTER, [3, 2], 4),
        (BEFORE, BEFORE, [0, 0], 4),
    ],
)
def test_runs_that_lie_on_both_sides_count_for_neither(a: list, b: list, counted: list[int], code: int) -> None:
    (found,) = judge(a, b, 0.05)
    assert [len(side.runs) if side else 0 for side in (found.a, found.b)] == counted
    assert found.on_both == len(a) - counted[0]
    assert exit_code([found]) == code
    assert any("on both sides" in note for note in to_notes([found], 0.05))
