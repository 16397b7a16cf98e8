"""Copies of records beside the runs that they were made of: no repeat is counted twice."""

import shutil
from pathlib import Path

from runner.report.formats import document
from runner.report.notes import notes as notes_of
from runner.report.summarize import summarize
from runner.report.two_sides import exit_code, judge, to_notes
from tests.support.records import Make
from tests.support.summaries import run


def copied(results: Path, times: int = 1) -> None:
    """Copy the folder of the runs, as for a backup."""
    for number in range(times):
        shutil.copytree(results / "tiny", results / f"backup{number}")


def test_copies_of_one_run_are_no_repeats_of_it(results: Path, make: Make) -> None:
    make.run(results, 10.0)
    make.run(results, 6.0, layout="1x2")
    copied(results, 2)
    (found,) = summarize(results)[0]
    assert [(len(row.runs), row.claimed) for row in found.rows] == [
        (1, "the baseline"),
        (1, "n = 1, needs 3 on both sides"),
    ]
    said = [note for note in notes_of(found) if "cop" in note]
    assert [note.partition(", the first: ")[0] for note in said] == [
        f"{name}: 2 copies of runs do not count" for name in ("1x1", "1x2")
    ]
    beside = min((results / "tiny").iterdir())
    shutil.copytree(beside, beside.with_name("copy"))
    assert "1x1: 3 copies of runs do not count" in document("markdown", summarize(results)[0])


def test_runs_that_somebody_gave_one_id_are_repeats_if_they_began_at_other_times(results: Path, make: Make) -> None:
    for place in ("tiny", "one", "two"):
        make.run(results, 10.0, id="imported")
        (results / "tiny").rename(results / f"{place} of three")
    (found,) = summarize(results)[0]
    assert (len(found.rows[0].runs), found.rows[0].copies) == (3, ())


def test_runs_that_lie_on_both_sides_count_for_neither() -> None:
    before, after, other = (
        [run(10 * value, id=f"{value}", began=1000 * turn + 100 * value) for turn, value in enumerate(side, first)]
        for first, side in ((0, (1.0, 1.01, 0.99)), (0, (1.2, 1.21, 1.19)), (3, (1.1, 1.11, 1.12)))
    )
    for a, b, counted, code in (
        (before + other, after + other, [3, 3], 1),
        (before + after[:1], after, [3, 2], 4),
        (before, before, [0, 0], 4),
    ):
        (found,) = judge(a, b, 0.05)
        assert [len(side.runs) if side else 0 for side in (found.a, found.b)] == counted
        assert found.on_both == len(a) - counted[0]
        assert exit_code([found]) == code
        assert any("on both sides" in note for note in to_notes([found], 0.05))
